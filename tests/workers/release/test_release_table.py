import datetime as dt
import pathlib

import numpy as np
import polars as pl
import pytest

from privcore.exceptions import InvalidInputError
from workers.release.table import as_table, read_frame

FRAME = pl.DataFrame(
    {
        "age": [30, -1, 30],
        "pay": [10.25, 0.1, -3.999],
        "town": ["B", "A", "B"],
        "well": [True, False, True],
        "born": [dt.date(1970, 1, 2), dt.date(1969, 12, 31), dt.date(2000, 1, 1)],
    }
)


def test_columns_become_cells():
    table = as_table(FRAME, bounds={"age": (-5, 99)})
    assert table.cells.T.tolist() == [
        [30, -1, 30],
        [1025, 10, -400],
        [1, 0, 1],
        [1, 0, 1],
        [1, -1, 10957],
    ]
    assert (table.columns[0].lower, table.columns[0].upper) == (-5, 99)
    assert table.columns[1].cells is None
    assert table.columns[2].categories == ("A", "B")
    assert table.records == 3
    assert table.index("town") == 2


def test_the_digest_is_that_of_schema_and_cells():
    same = as_table(FRAME.with_columns(pl.col("age").cast(pl.Int16)))
    assert same.digest == as_table(FRAME).digest
    assert as_table(FRAME.with_columns(pl.col("age") + 1)).digest != same.digest
    assert as_table(FRAME, precision=0.1).digest != same.digest
    assert as_table(FRAME.rename({"age": "years"})).digest != same.digest


@pytest.mark.parametrize("separator", [",", ";"])
def test_files_are_read(tmp_path, separator):
    frame = FRAME.select("age", "town")
    frame.write_csv(tmp_path / "table.csv", separator=separator)
    frame.write_parquet(tmp_path / "table.parquet")
    assert read_frame(str(tmp_path / "table.csv")).equals(frame)
    assert read_frame(str(tmp_path / "table.parquet")).equals(frame)
    assert read_frame(f"file://{tmp_path}/table.parquet").equals(frame)


def test_files_that_are_no_table_are_named(tmp_path):
    (tmp_path / "table.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "table.csv").write_text("a,b\n1,2,3,4\n", encoding="utf-8")
    (tmp_path / "table.txt").write_text("a", encoding="utf-8")
    for name, words in (
        ("table.parquet", "damaged"),
        ("table.csv", "damaged"),
        ("table.txt", r"\.parquet or \.csv"),
        ("none.parquet", "cannot be read"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            read_frame(str(tmp_path / name))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([1, None, 3], "1 of its values are missing"),
        ([1.0, float("nan"), 3.0], "finite number"),
        ([1.0, float("inf"), 3.0], "finite number"),
        ([[1], [2], [3]], "List"),
    ],
)
def test_values_that_have_no_cell_are_named(column, words):
    with pytest.raises(InvalidInputError, match=words):
        as_table(pl.DataFrame({"x": column}))


def test_bad_tables_are_named():
    for frame in (pl.DataFrame(), FRAME.clear()):
        with pytest.raises(InvalidInputError, match="at least one row"):
            as_table(frame)
    with pytest.raises(InvalidInputError, match="bounds"):
        as_table(FRAME, bounds={"size": (0, 1)})
    with pytest.raises(InvalidInputError, match="age is 30"):
        as_table(FRAME, bounds={"age": (-5, 10)})
    with pytest.raises(InvalidInputError, match="precision is 0"):
        as_table(FRAME, precision=0.0)
    with pytest.raises(InvalidInputError, match="column is 'size'"):
        as_table(FRAME).index("size")
    assert np.array_equal(as_table(FRAME).cells, as_table(FRAME).cells)


def test_a_number_of_more_than_64_bits_is_a_sentence(tmp_path: pathlib.Path) -> None:
    """In a CSV file for `privaudit release` it was an unexpected error."""
    (tmp_path / "x.csv").write_text(f"a\n{'9' * 26}\n", "utf-8")
    with pytest.raises(InvalidInputError, match="more than 64 bits"):
        read_frame(str(tmp_path / "x.csv"))


def test_a_long_word_gives_no_row_its_room() -> None:
    """Each row took as many bytes as four times the longest word has letters."""
    words = pl.Series(["a", "b"] * 50_000 + ["x" * 1_000_000])
    table = as_table(pl.DataFrame({"x": words}))
    assert table.cells.max() == 2

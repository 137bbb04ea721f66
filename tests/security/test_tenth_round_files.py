"""The tenth round, strangers who write files (2026-11-27): what broke of 25 attacks."""

import gzip
import pathlib
import secrets
from collections.abc import Callable
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcore.exceptions import TerminalError
from tests.support.frameworks import rows_with_gaps, train_lightgbm, train_xgboost
from tests.support.lake import DAY, put_labels
from tests.support.score_tables import audit, put_folder, score_rows, tables
from tests.support.warehouse import failed, forged_version
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.labels.shards import find_partition
from workers.lake.formats.contract import LoadedModel, ModelRefusedError
from workers.lake.layout import Lake
from workers.lake.model_sandbox import UnreadableModelError, describe_model
from workers.memorization.scan import count_ngrams
from workers.warehouse.store import Warehouse


def rows(count: int = 2_000) -> pl.DataFrame:
    """Return a day's scores, of which the target remembers the labels."""
    return score_rows(np.random.default_rng(0), count, leak=3.0, noise=0.3)


def said(place: pathlib.Path, **changes: Any) -> str:
    """Return what an audit says of a day's scores."""
    record = audit(tables(place, **changes)).audit
    return record.reason if record.epsilon_lower is None else f"{record.epsilon_lower:.1f}"


def zigzag(number: int, size: int) -> bytes:
    """Return a whole number as Thrift writes it, in so many bytes."""
    parts = [(number << 1) >> (7 * place) & 127 for place in range(size)]
    return bytes(part | 128 for part in parts[:-1]) + bytes(parts[-1:])


def with_false_counts(file: pathlib.Path, true: int, false: int, *, which: int) -> None:
    """Let a footer say another number of rows: the file's own (0), or its last row group's (-1)."""
    content = file.read_bytes()
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    footer, size = content[start:], (true << 1).bit_length() // 7 + 1
    place = footer.index(zigzag(true, size)) if which == 0 else footer.rindex(zigzag(true, size))
    changed = footer[:place] + zigzag(false, size) + footer[place + size :]
    file.write_bytes(content[:start] + changed)


def csv_lines() -> list[str]:
    """Return the lines of a day's scores, with a record's name first."""
    frame = rows().drop("day").with_columns(id=pl.format("r{}", pl.int_range(2_000)))
    return frame.select("id", pl.exclude("id")).write_csv().splitlines()


def put_csv(place: pathlib.Path, content: bytes, name: str = "x.csv") -> pathlib.Path:
    """Write a day's CSV file."""
    (place / f"day={DAY}").mkdir()
    (place / f"day={DAY}" / name).write_bytes(content)
    return place


def renamed(names: str) -> bytes:
    """Return the lines, every third with another name."""
    lines = csv_lines()
    for place in range(1, len(lines), 3):
        lines[place] = names + lines[place][lines[place].index(",") :]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (renamed('"x\\"'), "a backslash before a quotation mark"),
        ("\r".join(["\n".join(csv_lines()), *csv_lines()[1:9]]).encode(), "a carriage return"),
        (renamed('"say ""x"", ok"'), "4.9"),
        (renamed("C:\\x"), "4.9"),
        (renamed('"two\nlines"'), "4.9"),
        (renamed('"old\rlines"'), "4.9"),
        ("\r\n".join(csv_lines()).encode(), "4.9"),
        ("\r".join(csv_lines()).encode(), "4.9"),
    ],
)
def test_csv_of_which_readers_take_other_rows_is_refused(
    tmp_path: pathlib.Path, content: bytes, expected: str
) -> None:
    """Spark takes a backslash for an escape, and polars passes over a carriage return."""
    assert expected in said(put_csv(tmp_path, content))


def test_a_packed_csv_file_is_read_from_the_staging_area(tmp_path: pathlib.Path) -> None:
    """Arrow packed what was written below a name that ends with .gz, which was then refused."""
    lines = csv_lines()
    parts = "\n".join(lines[:900]) + "\n", "\n".join(lines[900:])
    packed = b"".join(gzip.compress(part.encode()) for part in parts)
    assert said(put_csv(tmp_path, packed, "x.csv.gz")) == "4.9"


def delta_table(place: pathlib.Path) -> pathlib.Path:
    """Write a day's scores as a Delta table, and return its one commit."""
    deltalake.write_deltalake(place, rows().to_arrow())
    return next((place / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("column", ["clicked", "split", "p_today"])
@pytest.mark.parametrize("name", ["gone", "CASE"])
def test_a_column_that_a_delta_table_has_no_more_is_not_read(
    tmp_path: pathlib.Path, column: str, name: str
) -> None:
    commit = delta_table(tmp_path)
    assert said(tmp_path, day="day") == "4.9"
    other = column.upper() if name == "CASE" else name
    text = commit.read_text("utf-8")
    schema = f'\\"name\\":\\"{column}\\"'
    assert schema in text
    commit.write_text(text.replace(schema, schema.replace(column, other)), "utf-8")
    assert f"has no column '{column}', and its files hold one" in said(tmp_path, day="day")


def test_a_decimal_that_polars_panics_at_prints_nothing(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put_folder(tmp_path, rows())
    wide = pa.array([0.25] * 2_000).cast(pa.decimal128(30, 10)).cast(pa.decimal256(76, 40))
    given = rows().drop("day", "p_today").to_arrow().append_column("p_today", wide)
    pq.write_table(given, next(tmp_path.rglob("*.parquet")))
    assert "stored as decimal256(76, 40), that cannot be read" in said(tmp_path)
    assert "panicked" not in capfd.readouterr().err


TWICE = {
    "lightgbm": lambda content: content.replace(b'["AMS", "BER", "CDG"]', b'["AMS", "AMS", "CDG"]'),
    "xgboost": lambda content: content.replace(
        b"[65,77,83,66,69,82,67,68,71]", b"[65,77,83,65,77,83,67,68,71]"
    ),
}


@pytest.mark.parametrize("kind", TWICE)
def test_a_category_of_two_codes_is_refused(kind: str) -> None:
    """It was an unexpected error in the pass over the labels."""
    frame = rows_with_gaps(600, seed=1)
    made = train_lightgbm(frame) if kind == "lightgbm" else train_xgboost(frame, kind="json")
    change: Callable[[bytes], bytes] = TWICE[kind]
    assert describe_model(made.content, format=kind).class_count == 2
    assert change(made.content) != made.content
    with pytest.raises(UnreadableModelError, match="gives the category 'AMS' two codes"):
        describe_model(change(made.content), format=kind)


def test_categories_of_several_columns_may_be_alike() -> None:
    one = (("a", 0), ("b", 1))
    assert LoadedModel(None, (one, None, one)).categories[0] == one
    with pytest.raises(ModelRefusedError, match="'None'"):
        LoadedModel(None, (None, (("None", 0), ("None", 1))))


def put_data_file(place: pathlib.Path, table: pa.Table) -> pathlib.Path:
    """Have `audits` name one file more, and return it."""
    file = place / "audits" / "forged.parquet"
    pq.write_table(table, file, compression="zstd", use_dictionary=False, store_schema=False)
    add = {"path": file.name, "partitionValues": {}, "size": 1, "modificationTime": 1}
    forged_version(place, {"add": add | {"dataChange": True}})
    return file


@pytest.mark.parametrize("which", [0, -1])
def test_a_warehouse_file_has_the_rows_that_it_says(tmp_path: pathlib.Path, which: int) -> None:
    """25 kB with a false count of rows took 600 MB, and more of 50 million."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    ids = [secrets.token_hex(8) for _ in range(9_000)]
    with_false_counts(put_data_file(tmp_path, pa.table({"audit_id": ids})), 9_000, 3, which=which)
    with pytest.raises(TerminalError, match="its counts of rows differ"):
        warehouse.current()


def test_a_warehouse_file_has_no_word_of_gigabytes(tmp_path: pathlib.Path) -> None:
    """46 kB with one word of 1 GB took 2.9 GB of each command."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    put_data_file(tmp_path, pa.table({"audit_id": ["x"], "reason": ["x" * (16 << 20)]}))
    with pytest.raises(TerminalError, match=r"'forged.parquet' has 16,77\d,\d{3} bytes in"):
        warehouse.current()


def test_fit_says_which_ids_are_none(tmp_path: pathlib.Path) -> None:
    lake = Lake(str(tmp_path))
    put_labels(lake, DAY, pl.DataFrame({"text": [[-1, 2]] * 9, "split": ["train"] * 9}))
    found = find_partition(lake, "flights", DAY)
    with pytest.raises(NotEvaluableError, match="token ids of 0 to 1,114,111"):
        count_ngrams(lake, found, "text", order=2, split="train", executor=InProcess())

"""A digest of rows that no file decides."""

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from workers.labels.row_digest import RowDigest, StoredDigest

COLUMNS = ("label", "person", "x", "at", "flag")
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
ROWS = pl.DataFrame(
    {
        "label": [0, 1, 1, None],
        "person": ["anna", "", None, "bob"],
        "x": [0.5, None, 1.0, 1.0],
        "at": [AT, AT + dt.timedelta(seconds=1), None, AT],
        "flag": [True, False, None, True],
    }
)


def of(frame: pl.DataFrame) -> StoredDigest:
    """Return the digest of a frame's rows."""
    return RowDigest.of(frame.to_arrow(), COLUMNS).stored(COLUMNS)


def test_neither_order_files_nor_widths_change_it() -> None:
    parts = [RowDigest.of(ROWS.slice(start, 2).to_arrow(), COLUMNS) for start in (2, 0)]
    assert sum(parts, RowDigest()).stored(COLUMNS) == of(ROWS) == of(ROWS.reverse())
    other = ROWS.with_columns(
        pl.col("label").cast(pl.Float32),
        pl.col("person").cast(pl.Categorical),
        pl.col("x").cast(pl.Float32).fill_null(float("nan")),
        pl.col("at").dt.cast_time_unit("ms"),
        pl.col("flag").cast(pl.Int8),
    )
    assert of(other.select(reversed(COLUMNS))) == of(ROWS)


@pytest.mark.parametrize(
    "other",
    [
        ROWS.head(3),
        pl.concat([ROWS, ROWS.head(1)]),
        pl.concat([ROWS.head(3), ROWS.head(1)]),
        ROWS.with_columns(label=pl.Series([1, 0, 1, None])),
        ROWS.with_columns(label=pl.Series([0, 1, 1, 0])),
        ROWS.with_columns(person=pl.Series(["anna", None, "", "bob"])),
        ROWS.with_columns(person=pl.Series(["bob", "", None, "anna"])),
        ROWS.with_columns(x=pl.Series([0.5, 0.0, 1.0, 1.0])),
        ROWS.with_columns(at=pl.Series([AT, AT, None, AT])),
        ROWS.with_columns(flag=pl.Series([True, True, None, True])),
    ],
)
def test_each_other_collection_of_rows_has_another(other: pl.DataFrame) -> None:
    assert of(other) != of(ROWS)


def test_words_are_not_taken_for_those_of_the_next_column() -> None:
    one, other = (
        pl.DataFrame({"a": [first], "b": [second]}).to_arrow()
        for first, second in (("x1:", "y"), ("x", "1:y"))
    )
    assert RowDigest.of(one, "ab").stored("ab") != RowDigest.of(other, "ab").stored("ab")


def test_many_rows_are_expanded_in_parts() -> None:
    rows = np.random.default_rng(0).integers(0, 9, (70_000, 2))
    table = pl.DataFrame(rows, schema=["a", "b"]).to_arrow()
    parts = [RowDigest.of(table.slice(start, 35_000), "ab") for start in (0, 35_000)]
    assert (parts[0] + parts[1]).stored("ab") == RowDigest.of(table, "ab").stored("ab")


def test_large_whole_numbers_are_told_apart_in_any_batch() -> None:
    values = pl.DataFrame({"a": [1, 2**60, None, -(2**62)], "b": ["x", "y", "", None]})
    parts = [RowDigest.of(values.slice(at, 1).to_arrow(), "ab") for at in range(4)]
    whole = RowDigest.of(values.to_arrow(), "ab")
    assert sum(parts, RowDigest()) == whole
    other = values.with_columns(a=pl.Series([1, 2**60 + 1, None, -(2**62)]))
    assert RowDigest.of(other.to_arrow(), "ab") != whole


def test_values_of_kinds_that_no_audit_reads_end_nothing() -> None:
    table = pa.table(
        {"a": [[1], None], "b": [b"\xff", None], "c": pa.array([2**64 - 1, None], pa.uint64())}
    )
    assert RowDigest.of(table, "abc").rows == 2


def test_a_record_keeps_it_with_its_columns() -> None:
    stored = of(ROWS)
    assert StoredDigest.read(stored.text()) == stored
    for text in ("", "[]", "{}", "1", "[" * 100_000, '{"columns": 1, "rows": 1, "sha256": ""}'):
        assert StoredDigest.read(text) is None

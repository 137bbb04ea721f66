"""Statistics of row groups: honest writers' are believed, and false ones are refused."""

import datetime as dt
import pathlib
from collections.abc import Callable
from typing import Any

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.exceptions import NotEvaluableError
from workers.labels.parquet import read_footer, read_row_group
from workers.labels.row_statistics import contradicted, said_of
from workers.lake.layout import Lake


def with_arrow(**how: Any) -> Callable[[pa.Table, pathlib.Path], None]:
    """Return a writer of Arrow."""
    return lambda table, path: pq.write_table(table, path, row_group_size=70, **how)


def with_polars(table: pa.Table, path: pathlib.Path) -> None:
    pl.DataFrame(table).write_parquet(path, row_group_size=70)


def with_duckdb(table: pa.Table, path: pathlib.Path) -> None:
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute(f"copy t to '{path}' (format parquet, row_group_size 2048)")


def with_delta(table: pa.Table, path: pathlib.Path) -> None:
    place = path.parent / path.stem
    deltalake.write_deltalake(place, table.drop(["unsigned", "coded"]))
    next(place.glob("*.parquet")).rename(path)


WRITERS = {
    "arrow": with_arrow(),
    "arrow 1.0": with_arrow(version="1.0", use_dictionary=False, compression="none"),
    "arrow pages": with_arrow(data_page_version="2.0", write_page_index=True),
    "arrow int96": with_arrow(use_deprecated_int96_timestamps=True),
    "polars": with_polars,
    "duckdb": with_duckdb,
    "delta": with_delta,
}


def drawn(seed: int) -> pa.Table:
    """Return columns of many kinds, at the ends of what they hold, with gaps."""
    random = np.random.default_rng(seed)
    rows = 200
    gaps = random.random(rows) < random.choice([0.0, 0.3, 1.0])
    words = ["", "train", "holdout", "\U0010ffff" * 40, "é" * 70, "\x00a", "z" * 1000]
    whole = random.integers(-(2**62), 2**62, rows)
    moments = random.integers(-(2**52), 2**52, rows)
    return pa.table(
        {
            "text": pa.array(random.choice(words, rows), mask=gaps),
            "coded": pa.array(random.choice(words, rows), mask=gaps).dictionary_encode(),
            "whole": pa.array(whole, mask=gaps),
            "small": pa.array((whole % 256 - 128).astype(np.int8), mask=gaps),
            "unsigned": pa.array(whole.astype(np.uint64), mask=gaps),
            "flag": pa.array(whole % 2 == 0, mask=gaps),
            "date": pa.array((whole % 20_000).astype("datetime64[D]"), mask=gaps),
            "time": pa.array(moments, pa.timestamp("us"), mask=gaps),
            "zoned": pa.array(moments // 1000, pa.timestamp("ms", "Europe/Berlin"), mask=gaps),
            "float": pa.array(random.choice([-0.0, 0.0, np.nan, np.inf, 5e-324], rows), mask=gaps),
            "exact": pa.array(whole % 1000, mask=gaps).cast(pa.decimal128(38, 0)),
        }
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_honest_statistics_are_believed(tmp_path: pathlib.Path, writer: str) -> None:
    """Seven writers, 8 tables each, of eleven columns; none is refused."""
    lake, compared = Lake(str(tmp_path)), 0
    for seed in range(8):
        table, name = drawn(seed), f"{seed}.parquet"
        WRITERS[writer](table, tmp_path / name)
        metadata = pq.read_metadata(tmp_path / name)
        names = metadata.schema.names
        footer = read_footer(lake, name, names)
        for index in range(len(footer.groups)):
            read = read_row_group(lake, name, footer, index, names).table(names)
            said = said_of(metadata.row_group(index), names)
            compared += len(said)
            assert contradicted(read, said) is None
    assert compared > 50


def falsified(path: pathlib.Path, true: bytes, false: bytes) -> None:
    """Change what a file's footer says."""
    content = path.read_bytes()
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    assert true in content[start:]
    path.write_bytes(content[:start] + content[start:].replace(true, false))


def stored(number: int, size: int) -> bytes:
    """Return a whole number as Parquet stores it."""
    return number.to_bytes(size, "little")


@pytest.mark.parametrize(
    ("values", "true", "false"),
    [
        (["train"] * 99, b"train", b"trail"),
        ([10**15 + 1, 10**15 + 9], stored(10**15 + 9, 8), stored(10**15 + 1, 8)),
        ([dt.date(2026, 3, 2)], stored(20_514, 4), stored(20_513, 4)),
    ],
)
@pytest.mark.parametrize("coded", [True, False])
def test_values_that_statistics_deny_are_refused(
    tmp_path: pathlib.Path, values: list[Any], true: bytes, false: bytes, *, coded: bool
) -> None:
    pq.write_table(
        pa.table({"x": values}), tmp_path / "f.parquet", store_schema=False, use_dictionary=coded
    )
    falsified(tmp_path / "f.parquet", true, false)
    footer = read_footer(Lake(str(tmp_path)), "f.parquet", ["x"])
    group = read_row_group(Lake(str(tmp_path)), "f.parquet", footer, 0, ["x"])
    with pytest.raises(NotEvaluableError, match="its own statistics say are not there"):
        group.table(["x"])

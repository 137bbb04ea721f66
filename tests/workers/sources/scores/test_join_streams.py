"""Rows on their way through DuckDB."""

import pathlib
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.exceptions import NotEvaluableError
from workers.lake.layout import Lake
from workers.sources.scores.join_streams import Stream, database

ROWS = pa.table({"a": list(range(10)), "bucket": [number % 3 for number in range(10)]})


def test_what_a_read_raises_is_raised_and_not_what_duckdb_makes_of_it() -> None:
    def torn() -> Iterator[pa.Table]:
        yield ROWS
        raise TimeoutError("The storage is away.")

    with database() as rows:
        with pytest.raises(TimeoutError, match="storage is away"):
            rows.run("SELECT sum(a) FROM stream", Stream(ROWS.schema, torn()))
        with pytest.raises(duckdb.Error, match="no_such_column"):
            rows.run("SELECT no_such_column FROM stream", Stream(ROWS.schema, iter([ROWS])))


def test_a_database_spills_to_a_folder_that_goes_with_it() -> None:
    with database() as rows:
        ((folder, memory, threads),) = rows.run(
            "SELECT current_setting('temp_directory'), current_setting('memory_limit'), "
            "current_setting('threads')"
        )
        assert pathlib.Path(folder).is_dir()
        assert (memory, threads) == ("953.6 MiB", 1)  # 1 GB
    assert not pathlib.Path(folder).exists()


def test_the_bytes_of_what_is_written_depend_on_the_rows_alone(tmp_path: pathlib.Path) -> None:
    scratch_folder = Lake(str(tmp_path))
    for name, cut in (("one", 4), ("two", 9)):
        tables = iter([ROWS[:cut], ROWS[cut:]])
        with database() as rows:
            rows.run("CREATE TEMP TABLE t AS SELECT * FROM stream", Stream(ROWS.schema, tables))
            rows.write("SELECT a FROM t ORDER BY a", scratch_folder, name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    column = pq.ParquetFile(tmp_path / "one").metadata.row_group(0).column(0)
    assert (column.compression, column.has_dictionary_page) == ("UNCOMPRESSED", False)


def test_tables_that_the_disk_does_not_hold_are_refused() -> None:
    with database() as rows:
        rows.run("SET memory_limit = '20MB'")
        rows.run("SET max_temp_directory_size = '1MB'")
        with pytest.raises(NotEvaluableError, match="join them before the audit") as raised:
            rows.run("SELECT a FROM range(10_000_000) AS t(a) ORDER BY hash(a)")
    assert raised.value.reason == "too_large"


def test_a_join_that_needs_too_much_memory_is_a_sentence() -> None:
    """Names of records of 1 MB, packed into 22 kB, were an unexpected error."""

    def full() -> None:
        raise duckdb.OutOfMemoryException("block")

    with (
        database() as made,
        pytest.raises(NotEvaluableError, match="which is too little for these"),
    ):
        made._read(None, full)

"""Rows on their way through DuckDB: read from tables, written to a scratch file."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.lake.layout import Lake
from workers.lake.retries import patiently
from workers.sources.scores.join_parts import JoinPart
from workers.sources.tables.table_rows import of_no_day

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")

_MEMORY = "1GB"
_BATCH_ROWS = 1 << 18
_GROUP_ROWS = 1 << 20


@dataclass(slots=True)
class Stream:
    """Tables for DuckDB, one after the other; it hides what a read raises, so that is kept.

    Attributes:
        kinds: of the columns.
        tables: the rows.
        failure: what reading them raised.
        unplaced: rows that were read and are of no day, or whose label has no known time.
    """

    kinds: pa.Schema
    tables: Iterator[pa.Table]
    failure: BaseException | None = None
    unplaced: int = 0

    def reader(self) -> pa.RecordBatchReader:
        """Return the tables as DuckDB reads them."""
        return pa.RecordBatchReader.from_batches(self.kinds, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for table in self.tables:
                yield from table.to_batches()
        except BaseException as error:
            self.failure = error
            raise


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one task, in bounded memory."""

    connection: "duckdb.DuckDBPyConnection"

    def run(self, query: str, stream: Stream | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, which reads `stream` as the table of that name.

        Raises:
            BaseException: whatever reading the stream raised.
        """
        return self._read(stream, lambda: self.connection.execute(query).fetchall())

    def table(self, query: str, stream: Stream) -> pa.Table:
        """Return the rows of a query as a table; as `run`."""
        return self._read(stream, lambda: self.connection.sql(query).to_arrow_table())

    def _read(self, stream: Stream | None, action: Callable[[], Result]) -> Result:
        import duckdb  # noqa: PLC0415

        if stream is not None:
            self.connection.register("stream", stream.reader())
        try:
            return action()
        except duckdb.Error as error:
            if stream is not None and stream.failure is not None:
                raise stream.failure from None
            if isinstance(error, duckdb.OutOfMemoryException):
                raise NotEvaluableError(
                    Reason.TOO_LARGE,
                    f"One worker joins tables within {_MEMORY} of memory and the free disk below "
                    f"{tempfile.gettempdir()}, which is too little for these: join them before the "
                    "audit, into one table.",
                ) from None
            raise

    def write(self, query: str, scratch_folder: Lake, name: str) -> None:
        """Write a query's rows to a scratch file; their bytes depend on the rows alone.

        Raises:
            TransientError: storage kept failing.
        """

        def action(stream: Any) -> None:
            reader = self.connection.sql(query).to_arrow_reader(_GROUP_ROWS)
            # Plain pages, whose bytes are digested.
            plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
            with pq.ParquetWriter(stream, reader.schema, **plain) as writer:
                for batch in reader:
                    writer.write_batch(batch, row_group_size=_GROUP_ROWS)

        _written(scratch_folder, name, action)


@contextlib.contextmanager
def database() -> Iterator[Database]:
    """Yield an empty database, which spills to a folder of this machine."""
    # Only where tables are joined: in a process that Ray ends, it complains of what was not freed.
    import duckdb  # noqa: PLC0415

    with (
        tempfile.TemporaryDirectory(prefix="privaudit-") as spill,
        duckdb.connect(
            config={"temp_directory": spill, "memory_limit": _MEMORY, "threads": 1}
        ) as made,
    ):
        yield Database(made)


def table_rows(part: JoinPart, *, known_at: str | None) -> Stream:
    """Return the asked columns of one table's files; `known_at` is the label's time.

    Reading the stream raises:
        NotEvaluableError: a file is damaged, was replaced, stores a column otherwise than the
            first file of its table, or holds other values than its folder says.
        TransientError: storage kept failing.
    """

    def tables() -> Iterator[pa.Table]:
        root, columns = part.found.root, part.needed
        for file in part.found.files:
            footer = read_footer(root, file.name, columns, listed=file)
            folders = unquote(file.name).casefold()
            said = [name for name in columns if f"{name.casefold()}=" in folders]
            for index in range(len(footer.groups)):
                group = read_row_group(root, file.name, footer, index, columns)
                for table in group.batches(columns, rows=_BATCH_ROWS):
                    for name in said:
                        Batch(table, file.name, (file.name, index, 0)).column(name)
                    read = _as(table, part.kinds, file.name)
                    stream.unplaced += _unplaced(read, part, known_at)
                    yield read

    stream = Stream(part.kinds, tables())
    return stream


def _unplaced(table: pa.Table, part: JoinPart, known_at: str | None) -> int:
    """Return how many rows are of no day, or have no time at which their label was known."""
    lost = np.zeros(table.num_rows, dtype=np.bool_)
    if part.found.day_in_files:
        lost |= of_no_day(pl.Series(pl.from_arrow(table[part.day])))
    if known_at in part.columns:
        lost |= table[known_at].is_null().to_numpy()
    return int(np.count_nonzero(lost))


def _as(table: pa.Table, kinds: pa.Schema, file: str) -> pa.Table:
    try:
        return table.select(kinds.names).cast(kinds)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{file} stores columns otherwise than the first file of its table, which has "
            f"{', '.join(f'{field.name} as {field.type}' for field in kinds)}: write all files of "
            "a table with the same columns.",
        ) from None


def _written(scratch_folder: Lake, name: str, action: Callable[[Any], None]) -> None:
    def write() -> None:
        with scratch_folder.create(name) as stream:
            action(stream)

    patiently(write, name)

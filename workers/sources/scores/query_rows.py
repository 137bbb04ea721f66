"""Rows of a day that a database gives: a query's answer, once, in a file below the staging area.

A server returns rows in an order of its own, and may return them otherwise the next time. So the
answer is read once, in one transaction, written to a private file, joined and sorted by record as
any score table is, and digested as such: order and batches change nothing.
"""

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privcore.exceptions import TransientError
from workers.databases import connected
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import LabelFile, may_go_away
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import TableDay

_FILE = "query.parquet"
_NUMERIC = "numeric"
_TIMES = {pa.timestamp("us"), pa.timestamp("us", "UTC")}
_INFINITY = -(1 << 63) + 946_684_799_999_999
"""PostgreSQL's `infinity` by ADBC 1.x, which adds the 30 years to its epoch beyond 64 bits."""
_LATEST = (1 << 63) - 1
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class QueryDay:
    """A day of what a query returns, of which nothing is read yet."""

    tables: ScoreTables
    day: dt.date
    kind: ClassVar[str] = "query"
    version: ClassVar[int | None] = None
    day_in_files: ClassVar[bool] = False
    files: ClassVar[tuple[LabelFile, ...]] = ()

    @property
    def name(self) -> str:
        """The query's name in sentences."""
        return f"the query of the database {self.tables.database}"

    @property
    def place(self) -> str:
        """The identity of these rows: database, query and day."""
        return f"{self.tables.database} {self.tables.query} {self.day}"

    def laid_out(self, columns: Iterable[str], joining: JoinContext) -> TableDay:
        """Return the day's rows in a file that all workers reach, until no one needs them.

        Raises:
            NotEvaluableError: the query has no such columns or no rows, the database refuses it,
                or the deadline passed.
            TerminalError: the environment names no such database, or a driver is missing.
            TransientError: database or storage failed.
        """
        scratch = joining.scratch_folder()
        try:
            with self._plain_kinds(), scratch.create(_FILE) as stream:
                rows = self._write(tuple(dict.fromkeys(columns)), joining, stream)
        except OSError as error:
            if not may_go_away(error):
                raise
            raise TransientError(
                f"Storage failed while the rows of {self.name} were written: try again later."
            ) from None
        if not rows:
            raise self._no_rows()
        files = (scratch.label_file(_FILE)._replace(name=_FILE),)
        return TableDay(scratch, self.kind, None, files, day_in_files=False, called=self.name)

    def _write(self, columns: tuple[str, ...], joining: JoinContext, stream: object) -> int:
        """Write the asked columns of all rows, and return how many rows there are."""
        count, size, writer = 0, 0, None
        try:
            for table in self._batches(str(self.tables.query)):
                self._check_columns(table, columns)
                joining.check_deadline(
                    f"{self.name} had given all rows: begin earlier, or make it faster"
                )
                rows = self._stored(table.select(columns))
                if writer is None:
                    writer = pq.ParquetWriter(stream, rows.schema, compression="zstd")
                if rows.num_rows:
                    writer.write_table(rows)
                count, size = count + rows.num_rows, size + rows.nbytes
                if size > limits.QUERY_BYTES:
                    raise NotEvaluableError(
                        Reason.TOO_LARGE,
                        f"{self._subject} returns more than {limits.QUERY_BYTES:,} bytes: return "
                        "the day's rows alone, with short text.",
                    )
        finally:
            if writer is not None:
                writer.close()
        return count

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with connected(str(self.tables.database)) as connection:
            yield from connection.batches(query, self.day)

    def _check_columns(self, table: pa.Table, columns: Iterable[str]) -> None:
        names = table.column_names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{self._subject} returns two columns {twice[0]!r}: give one another name with AS.",
            )
        missing = [name for name in columns if name not in names]
        if missing:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{self._subject} returns no column {missing[0]!r}: correct scores in the "
                f"settings, or select it; it returns {', '.join(names[:_SHOWN])}.",
            )

    def _stored(self, table: pa.Table) -> pa.Table:
        """Return a table whose columns are of kinds that Parquet has.

        Decimal numbers, which the driver gives as text, are the nearest floating-point numbers;
        but in the record's name, each digit of which counts. `infinity`, when a label is never
        known, is a time of long ago for the driver.
        """
        for place, field in enumerate(table.schema):
            if field.name == self.tables.known_at and field.type in _TIMES:
                times = table.column(place).cast(pa.int64())
                known = pc.if_else(pc.equal(times, _INFINITY), _LATEST, times).cast(field.type)
                table = table.set_column(place, field, known)
            if not isinstance(field.type, pa.BaseExtensionType):
                continue
            column = table.column(place).cast(field.type.storage_type)
            if getattr(field.type, "type_name", "") == _NUMERIC and (
                field.name != self.tables.record
            ):
                column = column.cast(pa.float64())
            table = table.set_column(place, field.name, column)
        return table.replace_schema_metadata()

    def look(self) -> "QueryDay":
        """Return itself if the query has a row for the day.

        Raises:
            NotEvaluableError: it has none yet, or the database refuses it.
            TerminalError: the environment names no such database, or a driver is missing.
            TransientError: the database failed.
        """
        one = f"select * from (\n{self.tables.query}\n) as privaudit_rows limit 1"  # noqa: S608  # the owner's own
        with self._plain_kinds():
            rows = sum(table.num_rows for table in self._batches(one))
        if not rows:
            raise self._no_rows()
        return self

    @contextlib.contextmanager
    def _plain_kinds(self) -> Iterator[None]:
        """Make a sentence of columns that the driver, or Parquet, has no kind for."""
        try:
            yield
        except pa.ArrowException as error:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{self._subject} returns a column of a kind that is not read "
                f"({str(error).partition(chr(10))[0][:100]}): return numbers and text.",
            ) from None

    def _no_rows(self) -> NotEvaluableError:
        return NotEvaluableError(
            Reason.MISSING_LABELS,
            f"{self._subject} returns no row for {self.day}: write the day's rows, or correct "
            "how the query uses its parameter, which is the day as a date.",
        )

    @property
    def _subject(self) -> str:
        """The name as a sentence begins."""
        return f"The{self.name.removeprefix('the')}"

"""Rows of a day that a database of PostgreSQL gives, by ADBC: a query's answer, once, in a file.

A server returns rows in an order of its own, and may return them otherwise the next time. So the
answer is read once, in one transaction, written to a private file below the staging area, joined
and sorted by record as any score table is, and digested as such: order and batches change nothing.

A database's address holds a password, so only the environment names it
(`PRIVAUDIT_DATABASE_<NAME>`), and settings and records know the name alone. What a driver says
where it cannot connect may quote parts of the address, and what a server says of values may quote
a label: neither is passed on. A server that is stopped answers nothing for ever, so every call has
a thread of its own, which is left behind where it takes too long.
"""

import contextlib
import datetime as dt
import itertools
import os
import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import check_columns
from workers.lake import limits
from workers.lake.layout import may_go_away
from workers.patience import within
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import TableDay

VARIABLE = "PRIVAUDIT_DATABASE_"
"""Environment variables that hold addresses begin so; a database's name in capitals follows."""
_SCHEMES = ("postgresql://", "postgres://")
_CURSOR = "privaudit_rows"
_NETWORK = (
    f"connect_timeout={limits.CONNECT_SECONDS:g}&keepalives_idle=30&keepalives_interval=10"
    "&keepalives_count=6&tcp_user_timeout=90000&application_name=privaudit"
)
_GRACE = 15.0
"""Seconds that a server has to end a statement by itself before it is left behind."""
_ABOUT_THE_QUERY = re.compile("42|0A|25006|21")
"""SQLSTATE of errors whose message quotes the statement and names, and no values."""
_ABOUT_VALUES = re.compile("22|23")
_TOOK_TOO_LONG = "57014"
_QUOTED = 300


def rows_of(name: str, query: str, day: dt.date) -> Iterator[pa.Table]:
    """Yield a query's rows as Arrow tables of bounded numbers of rows, one at least.

    All come from one transaction, which writes nothing, whatever the login may do. The driver would
    hold the whole answer in memory where there are parameters, so a cursor of the server gives it
    piece by piece.

    Raises:
        NotEvaluableError: the database refuses the query, or it took too long.
        TerminalError: the environment does not name the database, or its driver is not installed.
        TransientError: it cannot be reached, lets nobody in, or went away.
    """
    opened = _open(name)
    ask = partial(_ask, name, opened)
    try:
        ask(f"set statement_timeout = {int(limits.DATABASE_SECONDS * 1000)}")
        ask("set time zone 'UTC'")
        ask("set transaction isolation level repeatable read, read only")
        ask(f"declare {_CURSOR} no scroll cursor for\n{query}", day)
        fetch, first = f"fetch forward {limits.DATABASE_BATCH_ROWS} from {_CURSOR}", True
        while (rows := ask(fetch)).num_rows or first:
            yield rows
            first = False
    except TransientError:
        opened = None  # a thread that was left behind may still hold it
        raise
    finally:
        if opened is not None:
            with contextlib.suppress(Exception):
                within(_GRACE, opened.close)


def _ask(name: str, opened: Any, statement: str, *parameters: Any) -> pa.Table:
    """Return the answer, or raise in words what a driver says."""
    import adbc_driver_manager  # noqa: PLC0415

    def asked() -> pa.Table:
        # Without COPY, which knows no parameters and no cursors.
        with opened.cursor(adbc_stmt_kwargs={"adbc.postgresql.use_copy": "false"}) as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetch_arrow_table()

    try:
        return within(limits.DATABASE_SECONDS + _GRACE, asked)
    except TimeoutError:
        raise TransientError(
            f"The database {name} gave no answer within {limits.DATABASE_SECONDS:g} seconds: see "
            "that it runs, and try again."
        ) from None
    except adbc_driver_manager.Error as error:
        raise _in_words(name, error) from None


def _open(name: str) -> Any:
    """Return a connection to a database of the environment; raises as `rows_of`."""
    variable = VARIABLE + name.upper()
    address = os.environ.get(variable)
    if not address:
        raise TerminalError(
            f"The database {name} has no address: set {variable} in the environment, like "
            "postgresql://user:password@host:5432/database."
        )
    if not address.startswith(_SCHEMES):
        raise TerminalError(
            f"The address of the database {name} begins with no scheme that is known: write "
            "postgresql://user:password@host:5432/database."
        )
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415
    except ImportError:
        raise TerminalError(
            "The driver for PostgreSQL is not installed: install privaudit[sql]."
        ) from None
    place, _, given = address.partition("?")
    limited = f"{place}?{_NETWORK}&{given}".rstrip("&")  # what is given last counts
    try:
        return within(limits.CONNECT_SECONDS + _GRACE, partial(dbapi.connect, limited))
    except (TimeoutError, dbapi.Error):  # whose message may quote the address
        raise TransientError(
            f"The database {name} cannot be reached, or lets nobody in by the address that it has: "
            f"see that it runs, and that {variable} names the right host, port, user, password and "
            "database."
        ) from None


def _in_words(name: str, error: Any) -> Exception:
    """Return what a driver's error comes to, without what it may quote of values."""
    state = str(getattr(error, "sqlstate", None) or "")
    if state == _TOOK_TOO_LONG:
        return NotEvaluableError(
            Reason.TOO_LARGE,
            f"The database {name} ended the query after {limits.DATABASE_SECONDS:g} seconds: make "
            "it faster, as by an index on the day, or query a table that is made beforehand.",
        )
    if _ABOUT_THE_QUERY.match(state):
        text = str(error).partition("\nLINE ")[0].partition(". SQLSTATE")[0]
        said = " ".join(text.rpartition("ERROR:")[2].split()).rstrip(".")
        said = said if len(said) <= _QUOTED else f"{said[:_QUOTED]}..."
        return NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The database {name} refuses the statement (SQLSTATE {state}): {said}.",
        )
    if _ABOUT_VALUES.match(state):
        return NotEvaluableError(
            Reason.LABEL_INVALID,
            f"The database {name} cannot compute the query from its rows (SQLSTATE {state}, a "
            "value that does not fit): run the query there to see which, and correct it.",
        )
    told = f"SQLSTATE {state}" if state else "no SQLSTATE"
    return TransientError(
        f"The database {name} failed or went away in the middle ({told}): see that it runs, and "
        "try again."
    )


_FILE = "query.parquet"
_NUMERIC = "numeric"
_TIMES = {pa.timestamp("us"), pa.timestamp("us", "UTC")}
_INFINITY = -(1 << 63) + 946_684_799_999_999
"""PostgreSQL's `infinity` by ADBC 1.x, which adds the 30 years to its epoch beyond 64 bits."""
_LATEST = (1 << 63) - 1


def check_has_rows(tables: ScoreTables, day: dt.date) -> None:
    """Raise unless the query has a row for the day; raises as `laid_out`."""
    one = f"select * from (\n{tables.query}\n) as privaudit_rows limit 1"  # noqa: S608  # the owner's own
    with plain_kinds(tables):
        rows = sum(table.num_rows for table in rows_of(str(tables.database), one, day))
    if not rows:
        raise _no_rows(tables, day)


def laid_out(
    tables: ScoreTables, day: dt.date, columns: Collection[str], joining: JoinContext
) -> TableDay:
    """Return the rows of a query's day in a file that all workers reach, until no one needs them.

    Raises:
        NotEvaluableError: the query has no such columns or no rows, the database refuses it, or the
            deadline passed.
        TerminalError: the environment names no such database, or a driver is missing.
        TransientError: database or storage failed.
    """
    scratch, name = joining.scratch_folder(), f"the query of the database {tables.database}"
    try:
        with plain_kinds(tables), scratch.create(_FILE) as stream:
            parts = _parts(tables, day, columns, joining)
            first = next(parts)
            if not first.num_rows:
                raise _no_rows(tables, day)
            with pq.ParquetWriter(stream, first.schema, compression="zstd") as writer:
                for part in itertools.chain((first,), parts):
                    writer.write_table(part)
    except OSError as error:
        if not may_go_away(error):
            raise
        raise TransientError(
            f"Storage failed while the rows of {name} were written: try again later."
        ) from None
    files = (scratch.label_file(_FILE),)
    return TableDay(scratch, "query", None, files, day_in_files=False, called=name)


def _parts(
    tables: ScoreTables, day: dt.date, columns: Collection[str], joining: JoinContext
) -> Iterator[pa.Table]:
    """Yield the asked columns of all rows, of kinds that Parquet has; one table at least."""
    size, needed = 0, [(name, "scores in the settings") for name in columns]
    for table in rows_of(str(tables.database), str(tables.query), day):
        check_columns(table.column_names, _subject(tables), needed)
        joining.check_deadline(
            f"the query of the database {tables.database} had given all rows: begin earlier, or "
            "make it faster"
        )
        rows = stored(tables, table.select(columns))
        yield rows
        size += rows.nbytes
        if size > limits.QUERY_BYTES:
            raise NotEvaluableError(
                Reason.TOO_LARGE,
                f"{_subject(tables)} returns more than {limits.QUERY_BYTES:,} bytes: return the "
                "day's rows alone, with short text.",
            )


def stored(tables: ScoreTables, table: pa.Table) -> pa.Table:
    """Return a table whose columns are of kinds that Parquet has.

    Decimal numbers, which the driver gives as text, are the nearest floating-point numbers; but in
    the record's name, each digit of which counts. `infinity`, when a label is never known, is a
    time of long ago for the driver.
    """
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if field.name == tables.known_at and field.type in _TIMES:
            times = column.cast(pa.int64())
            column = pc.if_else(pc.equal(times, _INFINITY), _LATEST, times).cast(field.type)
        if isinstance(field.type, pa.BaseExtensionType):
            column = column.cast(field.type.storage_type)
            numeric = getattr(field.type, "type_name", "") == _NUMERIC
            if numeric and field.name != tables.record:
                column = column.cast(pa.float64())
        table = table.set_column(place, field.name, column)
    return table.replace_schema_metadata()


@contextlib.contextmanager
def plain_kinds(tables: ScoreTables) -> Iterator[None]:
    """Make a sentence of columns that the driver, or Parquet, has no kind for."""
    try:
        yield
    except pa.ArrowException as error:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{_subject(tables)} returns a column of a kind that is not read "
            f"({str(error).partition(chr(10))[0][:100]}): return numbers and text.",
        ) from None


def _no_rows(tables: ScoreTables, day: dt.date) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.MISSING_LABELS,
        f"{_subject(tables)} returns no row for {day}: write the day's rows, or correct how the "
        "query uses its parameter, which is the day as a date.",
    )


def _subject(tables: ScoreTables) -> str:
    return f"The query of the database {tables.database}"

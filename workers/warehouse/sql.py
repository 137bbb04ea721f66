"""The warehouse in SQL: DuckDB over its tables, with views, read only as far as asked for."""

import contextlib
import functools
import importlib.resources
import pathlib
import re
import tempfile
from collections.abc import Collection, Iterator

import duckdb
import polars as pl

from privcore.exceptions import TerminalError
from workers.warehouse.nights_together import nights_together
from workers.warehouse.store import OF_COUNTED, Warehouse
from workers.warehouse.tables import TABLES

VIEWS = ("epsilon_trend", "violations", "coverage", "promises")
"""The views in `workers/warehouse/views`."""
LATEST = "latest_audits"
"""The current records, by `Warehouse.current`."""
WINDOWS = "epsilon_windows"
"""What current nights say together: where a commit was cut off, no SQL can compute it."""
RELATIONS = (*TABLES, LATEST, *VIEWS, WINDOWS)
"""All that a query can name."""
_OTHERWISE = re.compile(r"\b(show|information_schema|pragma|query|query_table)\b|duckdb_|\\")
"""Words of a query that may read what it does not name."""


@functools.cache
def view_sql(view: str) -> str:
    """Return a view's query, as it stands in its file."""
    folder = importlib.resources.files("workers.warehouse") / "views"
    return (folder / f"{view}.sql").read_text("utf-8")


def query(warehouse: Warehouse, sql: str) -> pl.DataFrame:
    """Return what DuckDB answers over the tables and views.

    Raises:
        TerminalError: it cannot answer; the sentence gives DuckDB's reason.
    """
    with _connect() as connection:
        _register(connection, warehouse, _named(sql))
        relation = connection.sql(sql)
        if relation is None:
            raise TerminalError("The query returns no table: ask for one with select.")
        found: pl.DataFrame = relation.pl()
        return found


def export(warehouse: Warehouse, folder: pathlib.Path) -> list[pathlib.Path]:
    """Write every table and view to a Parquet file of its name, and return the files.

    Rows are ordered, so that the same warehouse gives the same files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with (
        _connect() as connection,
        # Under a name that nobody knows before: others may write to the folder.
        tempfile.TemporaryDirectory(prefix=".privaudit-", dir=folder) as unfinished,
    ):
        _register(connection, warehouse, RELATIONS)
        for name in RELATIONS:
            part = pathlib.Path(unfinished, f"{name}.parquet")
            connection.sql(f"select * from {name} order by all").write_parquet(str(part))  # noqa: S608
            files.append(part.replace(folder / part.name))
    return files


@contextlib.contextmanager
def _connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database of its own, in which an error is one sentence."""
    with (
        # Without a place, what does not fit in memory goes to .tmp in the working folder.
        tempfile.TemporaryDirectory(prefix="privaudit-") as spill,
        duckdb.connect(config={"temp_directory": spill}) as connection,
    ):
        connection.execute("set TimeZone = 'UTC'")
        try:
            yield connection
        except duckdb.Error as error:
            why = " ".join(str(error).partition("\n\nLINE")[0].split())
            raise TerminalError(f"DuckDB cannot answer the query: {why}") from None


def _named(sql: str) -> set[str]:
    """Return the tables and views that a query may read: those that it names, and what they read.

    All where it may come to a name otherwise, or asks which there are.
    """
    text = sql.lower()
    found = {name for name in RELATIONS if re.search(rf"\b{name}\b", text)}
    if not found or _OTHERWISE.search(text):
        return set(RELATIONS)
    for view in VIEWS:
        if view in found:
            found |= _named(view_sql(view))
    return found


def _register(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, names: Collection[str]
) -> None:
    """Let a connection see tables and views; nothing is read before a query asks for it."""
    for table in TABLES:
        if table in names:
            connection.register(table, warehouse.scan(table))
    if not {LATEST, WINDOWS}.isdisjoint(names):
        current = warehouse.current(every_secret=True, columns=OF_COUNTED)
    if LATEST in names:
        counts = pl.col("audit_id").is_in(current["audit_id"].implode())
        connection.register(LATEST, warehouse.scan("audits").filter(counts))
    for view in VIEWS:
        if view in names:
            connection.execute(f"create view {view} as {view_sql(view)}")
    if WINDOWS in names:
        found = nights_together(warehouse, current)
        named = current.select("model", "day", "audit_id").join(found, on="audit_id")
        connection.register(WINDOWS, named.sort("day", "model"))

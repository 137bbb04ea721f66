"""The warehouse in SQL: DuckDB over the Delta tables, with views, read only as far as asked for."""

import contextlib
import functools
import importlib.resources
import pathlib
import re
import tempfile
from collections.abc import Collection, Iterator

import duckdb
import polars as pl
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs

from privcore.exceptions import TerminalError
from workers.lake.places import check_uri, local_path
from workers.warehouse.night_row import OF_COUNTED
from workers.warehouse.nights_together import nights_together
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import (
    PARTS,
    STORED,
    TABLES,
    TIMES,
    columns_of_audit,
    stored_without_rows,
)

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

# A folder that is named a=b is no column.
_PLAINLY = "union_by_name = true, hive_partitioning = false"


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
    return found | {"audits"} if LATEST in found else found


def _register(
    connection: duckdb.DuckDBPyConnection,
    warehouse: Warehouse,
    names: Collection[str],
) -> None:
    """Let a connection see tables and views; nothing is read before a query asks for it."""
    if local_path(warehouse.uri) is None:
        # DuckDB's own extension for object stores would have to be downloaded.
        scheme, _, _ = warehouse.uri.partition("://")
        files, _ = fs.FileSystem.from_uri(check_uri(warehouse.uri))
        connection.register_filesystem(_ObjectStore(files, scheme=scheme))
    parts = {table for table in PARTS if table in names}
    for table in STORED:
        if table in names or (table == "audits" and parts):
            _register_table(connection, warehouse, table)
    for table in parts:
        connection.execute(f"create view {table} as {_part(table)}")
    if not {LATEST, WINDOWS}.isdisjoint(names):
        current = warehouse.current(every_secret=True, columns=OF_COUNTED)
    if LATEST in names:
        connection.register("ids", current.select("audit_id").to_arrow())
        connection.execute("create table stored.current as from ids")
        connection.unregister("ids")
        connection.execute(
            f"create view {LATEST} as from audits semi join stored.current using (audit_id)"
        )
    for view in VIEWS:
        if view in names:
            connection.execute(f"create view {view} as {view_sql(view)}")
    if WINDOWS in names:
        found = nights_together(warehouse, current)
        named = current.select("model", "day", "audit_id").join(found, on="audit_id")
        connection.register(WINDOWS, named.sort("day", "model").to_arrow())


class _ObjectStore(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no stubs
    """An Arrow filesystem for the URIs of one scheme, as DuckDB takes it."""

    def __init__(self, files: fs.FileSystem, *, scheme: str) -> None:
        super().__init__(files)
        self._scheme = scheme

    @property
    def protocol(self) -> str:
        """The scheme that the filesystem answers for."""
        return self._scheme


def _register_table(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: str
) -> None:
    """Let a connection see a table under today's columns, also one from before they existed."""
    # In a schema of its own, so that `show tables` lists what there is to ask.
    connection.execute("create schema if not exists stored")
    connection.register("columns_of_one", stored_without_rows(table).to_arrow())
    connection.execute(f"create table stored.columns_of_{table} as from columns_of_one")
    connection.unregister("columns_of_one")
    delta = warehouse.delta(table)
    files = delta.file_uris() if delta is not None else []
    rows = f"from stored.columns_of_{table}"
    if files:
        listed = ", ".join(_literal(file) for file in files)
        rows += f" union all by name from read_parquet([{listed}], {_PLAINLY})"
    if warehouse.as_of is not None:
        when = f"timestamptz '{warehouse.as_of.isoformat()}'"
        rows = f"from ({rows}) where {TIMES[table]} <= {when}"
    connection.execute(f"create view stored.{table} as {rows}")
    columns = ", ".join(TABLES[table].row.model_fields)
    connection.execute(f"create view {table} as select {columns} from stored.{table}")  # noqa: S608


def _part(table: str) -> str:
    """Return the query of a part's rows."""
    row, part = TABLES[table].row, TABLES[table].part
    of_audit = columns_of_audit(row)
    columns = (name if name in of_audit else f'one."{name}"' for name in row.model_fields)
    rows = f"select {', '.join(of_audit)}, unnest({part}) as one from stored.audits"  # noqa: S608
    return f"select {', '.join(columns)} from ({rows})"  # noqa: S608


def _literal(text: str) -> str:
    """Return a text as SQL writes it; a path may hold quotes of both kinds."""
    return "'" + text.replace("'", "''") + "'"

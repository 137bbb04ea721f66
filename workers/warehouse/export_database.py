"""The warehouse in PostgreSQL: `privaudit export --to`, what is not there yet, in one transaction.

Rows of the warehouse never change, so a record that is there is there for good: an export adds the
records that the database lacks, each with all its rows, and the notes that came later
(confirmations, withdrawals, acknowledgements). The views are views there too, so a record that was
withdrawn is current no more. `epsilon_windows`, which no SQL can compute, is a table that each
export replaces. Delta stays the truth: what `privaudit compact --delete-before` deletes stays in
the database until somebody deletes it there.
"""

import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from privcore.exceptions import TerminalError
from workers.databases import POSTGRESQL, VARIABLE, Connection, connected, driver_of
from workers.lake import limits
from workers.warehouse.sql import VIEWS, WINDOWS, registered, view_sql
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import PARTS, TABLES, arrow_schema

_HERE = "date_diff('day', first_day, last_day)"
_THERE = "cast(last_day - first_day as bigint)"
"""The one expression of the views that PostgreSQL writes otherwise."""
_OWNER = """
with recursive mine(id) as (
    select oid from pg_roles where rolname = current_user
    union select roleid from pg_auth_members join mine on member = mine.id
)
select r.rolname::text as owner from pg_class c join pg_roles r on r.oid = c.relowner
where c.oid = to_regclass($1::text) and c.relowner not in (select id from mine)
"""
"""Asks for the owner of a table or a view that is none of our roles; a superuser is a member of
every role by its rights, so its own memberships are asked for."""
_KINDS = {
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.list_(pa.float64()): "double precision[]",
    pa.list_(pa.date32()): "date[]",
    pa.list_(pa.string()): "text[]",
}
_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.int32(): pa.int64(),
    pa.uint32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.timestamp("us"): pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Exported:
    """One table or view of the database after an export.

    Attributes:
        relation: its name.
        kind: `table`, or `view`, which holds no rows of its own.
        added: rows that the export wrote to it.
    """

    relation: str
    kind: str
    added: int


def named_or_addressed(to: str) -> tuple[str, str | None]:
    """Return a database's name, and its address where `to` is one.

    Raises:
        TerminalError: an address holds a password, or is of no PostgreSQL.
    """
    if "://" not in to:
        return to, None
    try:
        parts = urllib.parse.urlsplit(to)
        password = parts.password is not None
    except ValueError:
        password = True  # what cannot be read may hold one
    if password or "password" in dict(urllib.parse.parse_qsl(to.partition("?")[2])):
        raise TerminalError(
            "--to holds a password, which every user of this machine sees in its list of "
            f"processes: set {VARIABLE}<NAME> in the environment to the address, and give the name."
        )
    return parts.path.strip("/") or POSTGRESQL, to


def export_to(
    warehouse: Warehouse, name: str, *, schema: str, address: str | None = None
) -> list[Exported]:
    """Add to a PostgreSQL database what it lacks of the warehouse, and return what was added.

    Args:
        warehouse: what to write, as it is now.
        name: the database's, by which the environment has its address.
        schema: of the database; made if need be. Two exports to it wait for each other.
        address: instead of the environment's.
    """
    if address is not None and driver_of(address) not in {None, POSTGRESQL}:
        raise _no_postgresql(name)
    with registered(warehouse) as rows, connected(name, address) as database:
        if database.driver != POSTGRESQL:
            raise _no_postgresql(name)
        database.run(
            "select pg_advisory_xact_lock(hashtext('privaudit'), hashtext($1::text))", schema
        )
        if not _asked(database, "select 1 from pg_namespace where nspname = $1::text", schema):
            database.run(f"create schema {_quoted(schema)}")
        target = _Schema(database, schema)
        done = list(_tables(target, rows))
        done.append(_windows(target, rows))
        database.run(f"set local search_path to {_quoted(schema)}")
        for view in VIEWS:
            query = view_sql(view).replace(_HERE, _THERE)
            target.check_own(view)
            database.run(f"create or replace view {_quoted(view)} as {query}")
            done.append(Exported(view, "view", 0))
        database.commit()
    return done


def _no_postgresql(name: str) -> TerminalError:
    return TerminalError(
        f"The database {name} is no PostgreSQL: give one, or write files (--output) and load these."
    )


@dataclass(frozen=True, slots=True)
class _Schema:
    """A schema of a database, in an open transaction."""

    database: Connection
    name: str

    def of(self, table: str) -> str:
        """Return a table's name in SQL."""
        return f"{_quoted(self.name)}.{_quoted(table)}"

    def prepare(self, table: str, columns: pa.Schema, keys: Iterable[str] = ()) -> None:
        """See that a table has the columns; those that are new stand last."""
        there = {
            row["column_name"]
            for row in _asked(
                self.database,
                "select column_name::text from information_schema.columns "
                "where table_schema = $1::text and table_name = $2::text",
                self.name,
                table,
            )
        }
        kinds = {field.name: _KINDS[field.type] for field in columns}
        if not there:
            parts = [f"{_quoted(column)} {kind}" for column, kind in kinds.items()]
            if keys:
                parts.append(f"primary key ({', '.join(map(_quoted, keys))})")
            self.database.run(f"create table {self.of(table)} ({', '.join(parts)})")
            return
        self.database.run(f"lock table {self.of(table)} in row exclusive mode")  # it stays this one
        self.check_own(table)
        for column, kind in kinds.items():
            if column not in there:
                self.database.run(
                    f"alter table {self.of(table)} add column {_quoted(column)} {kind}"
                )

    def check_own(self, relation: str) -> None:
        """Refuse what another role has there.

        A table's triggers would do as we may what their writer wants, and a view stays its owner's
        where a superuser replaces it, who then has it say anything.
        """
        found = _asked(self.database, _OWNER, self.of(relation))
        if found:
            raise TerminalError(
                f"{self.of(relation)} belongs to the role {found[0]['owner']!r}, whose statements "
                "could run by this login (triggers) or be read in place of ours (views): give "
                "another --schema, or have an administrator give it to this login."
            )

    def add(self, table: str, columns: pa.Schema, found: duckdb.DuckDBPyRelation) -> int:
        """Append rows to a table, and return how many."""
        stream = _Counted(columns, found)
        first = next(stream, None)
        if first is not None:
            batches = _followed_by(first, stream)
            reader = pa.RecordBatchReader.from_batches(columns, batches)
            self.database.ingest(table, self.name, reader)
        return stream.count


def _tables(target: _Schema, rows: duckdb.DuckDBPyConnection) -> Iterator[Exported]:
    """Add the rows of each table that are not there; a record is there if its row in audits is."""
    for table, described in TABLES.items():
        # Parts come after audits here, and a key of theirs may be null.
        keys = () if table in PARTS else described.keys
        target.prepare(table, arrow_schema(described.row), keys)
    there = _known(target, "audits", ("audit_id",))
    for table, described in TABLES.items():
        columns = arrow_schema(described.row)
        keys = ("audit_id",) if table in PARTS else described.keys
        if table not in PARTS:
            _check_once(rows, table, keys)
        known = there if keys == ("audit_id",) and table != "release_audits" else None
        rows.register("known", known if known is not None else _known(target, table, keys))
        chosen = ", ".join(_quoted(name) for name in columns.names)
        whole = " where audit_id in (select audit_id from audits)" if table in PARTS else ""
        lacking = rows.sql(
            f"select {chosen} from {table} anti join known using ({', '.join(keys)}){whole}"  # noqa: S608  # our own names
        )
        yield Exported(table, "table", target.add(table, columns, lacking))
        rows.unregister("known")


def _check_once(rows: duckdb.DuckDBPyConnection, table: str, keys: tuple[str, ...]) -> None:
    """Refuse rows of one key: the database would take one of them, and nobody knows which."""
    named = ", ".join(map(_quoted, keys))
    twice = rows.sql(f"select {named} from {table} group by {named} having count(*) > 1 limit 1")  # noqa: S608  # our own names
    if found := twice.fetchall():
        key = ", ".join(map(str, found[0]))
        raise TerminalError(
            f"{table} has several rows of one key, {key!r}, which privaudit does not write: "
            "see who may write the warehouse, and take out what was added."
        )


def _windows(target: _Schema, rows: duckdb.DuckDBPyConnection) -> Exported:
    """Replace what is computed over nights."""
    found = rows.sql(f"select * from {WINDOWS}")  # noqa: S608
    columns = pa.schema(
        [
            pa.field(field.name, _PLAIN.get(field.type, field.type))
            for field in found.to_arrow_reader(1).schema
        ]
    )
    target.prepare(WINDOWS, columns)
    target.database.run(f"delete from {target.of(WINDOWS)}")  # noqa: S608
    return Exported(WINDOWS, "table", target.add(WINDOWS, columns, found))


def _known(target: _Schema, table: str, keys: tuple[str, ...]) -> pa.Table:
    """Return the keys of a table's rows in the database."""
    chosen = ", ".join(_quoted(key) for key in keys)
    found: pa.Table = target.database.ask(
        lambda cursor: _fetched(cursor, f"select {chosen} from {target.of(table)}", ())  # noqa: S608
    )
    return found.replace_schema_metadata()


def _asked(database: Connection, query: str, *parameters: str) -> list[dict[str, Any]]:
    found: pa.Table = database.ask(lambda cursor: _fetched(cursor, query, parameters))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _fetched(cursor: Any, query: str, parameters: tuple[str, ...]) -> pa.Table:
    cursor.execute(query, parameters or None)
    return cursor.fetch_arrow_table()


class _Counted:
    """Batches of a relation's rows, in the columns of a table, and how many rows there were."""

    def __init__(self, columns: pa.Schema, found: duckdb.DuckDBPyRelation) -> None:
        self._columns = columns
        self._reader = found.to_arrow_reader(limits.DATABASE_BATCH_ROWS)
        self.count = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            batch = _storable(next(self._reader).cast(self._columns))
            if batch.num_rows:
                self.count += batch.num_rows
                return batch


def _storable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as PostgreSQL takes them: it has no NUL in text, and no audit writes one.

    A row whose key has one is left out, since it would be another row there.
    """
    text = [name for name, kind in zip(batch.schema.names, batch.schema.types, strict=True)
            if kind == pa.string()]  # fmt: skip
    for name in text:
        if name == "audit_id":
            batch = batch.filter(pc.invert(pc.match_substring(batch[name], "\0")))
        place = batch.schema.get_field_index(name)
        plain = pc.replace_substring(batch[name], "\0", "\N{REPLACEMENT CHARACTER}")
        batch = batch.set_column(place, batch.schema.field(place), plain)
    return batch


def _followed_by(first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from more


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'

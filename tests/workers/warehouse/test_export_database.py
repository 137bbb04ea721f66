"""The warehouse in a real PostgreSQL: the same rows, once, however often they are exported."""

import contextlib
import datetime as dt
import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import adbc_driver_postgresql.dbapi
import deltalake
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import workers.warehouse.export_database
from flows.cli import app
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE
from tests.support.postgresql import Server
from tests.support.warehouse import evaluated, failed, put_rows, release
from workers.databases import Connection
from workers.warehouse.export_database import Exported, export_to, named_or_addressed
from workers.warehouse.schema import BoundRow
from workers.warehouse.sql import RELATIONS, VIEWS, query, registered
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES, arrow_schema

SCHEMA = "audits here"


@pytest.fixture
def bank(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    run(server, f'drop schema if exists "{SCHEMA}" cascade')
    run(server, "drop schema if exists privaudit cascade")
    monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", server.uri("hunter2"))
    return server


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    first = evaluated("credit", EVE, epsilon_lower=0.1 + 0.2)
    records = [first, evaluated("credit", DAY, hour=25, verdict="violated", epsilon_lower=0.75)]
    records += [failed("ads", EVE - dt.timedelta(days=3), reason='Ünïcode, "quoted"\nand broken')]
    put_rows(warehouse, records, confirmed=[(first.audit.audit_id, 30)])
    warehouse.commit_release(release("census"))
    return warehouse


def run(server: Server, statement: str) -> None:
    with adbc_driver_postgresql.dbapi.connect(server.uri()) as opened:
        with opened.cursor() as cursor:
            cursor.execute(statement)
        opened.commit()


@contextlib.contextmanager
def asking(server: Server) -> Iterator[Callable[..., pl.DataFrame]]:
    """Yield what returns the rows of a relation, all by one connection."""
    with (
        adbc_driver_postgresql.dbapi.connect(server.uri()) as opened,
        opened.cursor() as cursor,
    ):
        cursor.execute("set time zone 'UTC'")

        def rows_of(relation: str, schema: str = SCHEMA) -> pl.DataFrame:
            cursor.execute(f'select * from "{schema}"."{relation}"')  # noqa: S608
            found = pl.from_arrow(cursor.fetch_arrow_table())
            assert isinstance(found, pl.DataFrame)
            return found

        yield rows_of


def there(server: Server, relation: str, schema: str = SCHEMA) -> pl.DataFrame:
    with asking(server) as rows_of:
        return rows_of(relation, schema)


def assert_the_same(warehouse: Warehouse, server: Server) -> None:
    with registered(warehouse) as connection, asking(server) as rows_of:
        for relation in RELATIONS:
            expected = connection.sql(f"select * from {relation}").pl()  # noqa: S608
            found = rows_of(relation)
            assert found.columns == expected.columns, relation
            keys = [name for name, kind in expected.schema.items() if not kind.is_nested()]
            assert_frame_equal(
                found.sort(keys, nulls_last=True), expected.sort(keys, nulls_last=True),
                check_exact=True, check_dtypes=relation not in {*VIEWS, "epsilon_windows"},
            )  # fmt: skip


def added(done: list[Exported]) -> dict[str, int]:
    return {one.relation: one.added for one in done if one.added and one.relation in TABLES}


@pytest.mark.slow
def test_all_tables_and_views_hold_the_same_rows(warehouse: Warehouse, bank: Server) -> None:
    done = export_to(warehouse, "bank", schema=SCHEMA)
    assert {one.relation for one in done} == set(RELATIONS)
    assert added(done)["audits"] == 3
    assert_the_same(warehouse, bank)


@pytest.mark.slow
def test_twice_leaves_one_and_then_only_what_is_new(warehouse: Warehouse, bank: Server) -> None:
    export_to(warehouse, "bank", schema=SCHEMA)
    assert added(export_to(warehouse, "bank", schema=SCHEMA)) == {}
    assert_the_same(warehouse, bank)
    late = evaluated("ads", DAY, hour=50)
    warehouse.commit(late)
    warehouse.withdraw(query(warehouse, "from violations")["audit_id"].item(), "The wrong lake.")
    done = added(export_to(warehouse, "bank", schema=SCHEMA))
    assert done == {
        "audits": 1, "audit_bounds": 1, "audit_wealth": 1, "audit_promises": 2,
        "audit_withdrawals": 1,
    }  # fmt: skip
    assert there(bank, "violations").is_empty()
    assert_the_same(warehouse, bank)


@pytest.mark.slow
def test_two_exports_at_once_leave_one(warehouse: Warehouse, bank: Server) -> None:
    failures: list[BaseException] = []

    def export() -> None:
        try:
            export_to(warehouse, "bank", schema=SCHEMA)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=export) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert_the_same(warehouse, bank)


@pytest.mark.slow
def test_rows_of_a_commit_that_was_cut_off_wait_for_their_record(
    warehouse: Warehouse, bank: Server
) -> None:
    """`audits` is written last."""
    record = evaluated("ads", DAY, hour=50)
    rows = pa.Table.from_pylist(
        [row.model_dump() for row in record.bounds], schema=arrow_schema(BoundRow)
    )
    deltalake.write_deltalake(warehouse.path("audit_bounds"), rows, mode="append")
    assert query(warehouse, "from audit_bounds").height == 3
    assert added(export_to(warehouse, "bank", schema=SCHEMA))["audit_bounds"] == 2
    assert record.audit.audit_id not in there(bank, "audit_bounds")["audit_id"].to_list()


@pytest.mark.slow
@pytest.mark.usefixtures("bank")
def test_a_forged_row_under_a_known_key_is_named(warehouse: Warehouse) -> None:
    """The database said that it could not compute the query."""
    rows = pl.read_delta(warehouse.path("audits"))
    forged = rows.head(1).with_columns(reason=pl.lit("forged"))
    deltalake.write_deltalake(warehouse.path("audits"), forged, mode="append")
    with pytest.raises(TerminalError, match=f"several rows of one key, '{rows['audit_id'][0]}'"):
        export_to(warehouse, "bank", schema=SCHEMA)


@pytest.mark.slow
def test_a_server_that_fails_in_the_middle_keeps_nothing(
    warehouse: Warehouse, bank: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_to(warehouse, "bank", schema=SCHEMA)
    warehouse.commit(evaluated("ads", DAY, hour=50))
    ingest = Connection.ingest

    def fail(self: Connection, table: str, schema: str, rows: Any) -> None:
        if table == "audit_promises":
            self.run("select 1 / 0")
        ingest(self, table, schema, rows)

    with monkeypatch.context() as failing:
        failing.setattr(Connection, "ingest", fail)
        with pytest.raises(TerminalError, match="SQLSTATE 22012"):
            export_to(warehouse, "bank", schema=SCHEMA)
    assert there(bank, "audits").height == 3
    export_to(warehouse, "bank", schema=SCHEMA)
    assert_the_same(warehouse, bank)


@pytest.mark.slow
def test_columns_of_a_later_release_are_added(warehouse: Warehouse, bank: Server) -> None:
    export_to(warehouse, "bank", schema=SCHEMA)
    kept = there(bank, "audits")
    last = kept.columns[-1]
    run(bank, f'alter table "{SCHEMA}".audits drop column "{last}" cascade')
    export_to(warehouse, "bank", schema=SCHEMA)
    assert_frame_equal(there(bank, "audits").drop(last), kept.drop(last), check_row_order=False)
    assert there(bank, "audits")[last].null_count() == 3  # as of rows from before there was one


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("postgresql://audit:hunter2@host/bank", "--to holds a password"),
        ("postgresql://audit@host/bank?password=hunter2", "--to holds a password"),
        ("postgresql://audit:hunter2@[host/bank", "--to holds a password"),
    ],
)
def test_no_password_stands_on_a_command_line(to: str, told: str) -> None:
    with pytest.raises(TerminalError, match=told) as error:
        named_or_addressed(to)
    assert "hunter2" not in str(error.value)


def test_other_databases_are_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TerminalError, match="lake is no PostgreSQL"):
        export_to(warehouse, "lake", schema=SCHEMA, address="snowflake://a@b/c")
    monkeypatch.setenv("PRIVAUDIT_DATABASE_LAKE", "mysql://a@b/c")
    with pytest.raises(TerminalError, match="no scheme that is known"):
        export_to(warehouse, "lake", schema=SCHEMA)


@pytest.mark.slow
def test_the_command_exports_to_a_name_and_to_an_address(
    warehouse: Warehouse, bank: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "privaudit.toml"
    settings.write_text(
        f'lake = "lake"\nwarehouse = "{warehouse.uri}"\nreport = "report"\n'
        '[[models]]\nname = "credit"\n'
    )
    monkeypatch.setenv("PRIVAUDIT_CONFIG", str(settings))
    said = CliRunner().invoke(app, ["export", "--to", "bank", "--json"])
    assert said.exit_code == 0, said.output
    rows = {row["relation"]: row["added"] for row in json.loads(said.stdout)}
    assert rows["audits"] == 3
    again = CliRunner().invoke(app, ["export", "--to", bank.uri()])
    assert again.exit_code == 0, again.output
    assert there(bank, "audits", "privaudit").height == 3
    assert CliRunner().invoke(app, ["export"]).exit_code != 0
    both = ["export", "--to", "bank", "--as-of", "2026-05-01"]
    assert CliRunner().invoke(app, both).exit_code != 0
    assert workers.warehouse.export_database.WINDOWS in rows


@pytest.mark.slow
@pytest.mark.usefixtures("bank")
def test_another_roles_table_runs_nothing_by_our_login(
    server: Server, warehouse: Warehouse
) -> None:
    """Its trigger made that role a superuser, as soon as a superuser exported."""
    run(server, "drop role if exists mallory")
    run(server, "create role mallory")
    for statement in (
        "create schema privaudit",
        "create table privaudit.audits (audit_id text primary key)",
        (
            "create function privaudit.gain() returns trigger language plpgsql as "
            "$$ begin alter role mallory superuser; return new; end $$"
        ),
        (
            "create trigger gain before insert on privaudit.audits for each row "
            "execute function privaudit.gain()"
        ),
        "alter table privaudit.audits owner to mallory",
    ):
        run(server, statement)
    with pytest.raises(TerminalError, match="belongs to the role 'mallory'"):
        export_to(warehouse, "bank", schema="privaudit")
    run(server, "grant mallory to audit")  # now it is one of our own
    assert export_to(warehouse, "bank", schema="privaudit")[0].added == 3
    run(server, "revoke mallory from audit")
    run(server, "alter table privaudit.audits owner to audit")
    # A view stays its owner's where a superuser replaces it, who may then have it say anything.
    run(server, "alter view privaudit.violations owner to mallory")
    with pytest.raises(TerminalError, match="\"violations\" belongs to the role 'mallory'"):
        export_to(warehouse, "bank", schema="privaudit")
    run(server, "drop schema privaudit cascade")
    run(server, "drop role mallory")

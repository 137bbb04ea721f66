"""Scores that a database gives: a real PostgreSQL, asked by ADBC, audited as any score table."""

import contextlib
import datetime as dt
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_postgresql.dbapi
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pydantic import ValidationError

import workers.sources.scores.query_rows
from privcore.exceptions import AuditError, TerminalError, TransientError
from tests.support.audits import run_audits
from tests.support.lake import DAY, EVE, declared
from tests.support.postgresql import Server, postgresql
from tests.support.score_tables import EMPTY_LAKE, PLAN, score_rows
from tests.support.score_tables import tables as named
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake.manifest import Privacy
from workers.sources.join_context import JoinContext
from workers.sources.scores.query_rows import _INFINITY, plain_kinds, rows_of, stored
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores, find_scores
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord

ROWS = 2_000
DECLARED = Privacy.model_validate(declared(0.5))
PASSWORD = "hunter2-is/secret"  # noqa: S105
ENCODED = "hunter2-is%2Fsecret"
IN_PROCESS = InProcess()
QUERY = """
select application_id, defaulted, pd_today, pd_yesterday, split
from applications where scored_on = $1 order by random() -- as the server likes
"""


def world() -> pl.DataFrame:
    frame = score_rows(np.random.default_rng(3), ROWS, leak=3.0)
    frame.insert_column(1, pl.Series("application_id", [f"a{number}" for number in range(ROWS)]))
    names = {"day": "scored_on", "clicked": "defaulted", "p_today": "pd_today"}
    return frame.rename(names | {"p_yesterday": "pd_yesterday"})


@pytest.fixture
def bank(server, monkeypatch):
    """Return the server with a fresh table of a day's and another day's rows, by its name."""
    frame = world()
    other = frame.with_columns(pl.lit(EVE).alias("scored_on"), pl.lit(0.5).alias("pd_today"))
    run(server, "drop table if exists applications")
    with connection(server) as opened, opened.cursor() as cursor:
        cursor.adbc_ingest("applications", pl.concat([other, frame]).to_arrow())
        opened.commit()
    monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", server.uri(ENCODED))
    return server


@contextlib.contextmanager
def connection(server: Server) -> Iterator[Any]:
    with adbc_driver_postgresql.dbapi.connect(server.uri()) as opened:
        yield opened


def run(server: Server, statement: str) -> None:
    with connection(server) as opened, opened.cursor() as cursor:
        cursor.execute(statement)
        opened.commit()


def rows_left(server: Server) -> int:
    with connection(server) as opened, opened.cursor() as cursor:
        cursor.execute("select count(*) from applications")
        return int(cursor.fetchone()[0])


def settings(**changes: Any) -> ScoreTables:
    given = {"database": "bank", "query": QUERY, "record": "application_id", "label": "defaulted"}
    given |= {"target": "pd_today", "proxy": "pd_yesterday"}
    return named("applications", **given | changes)


def audit(tables: ScoreTables, privacy: Privacy | None = None) -> AuditRecord:
    supplied = SuppliedScores(tables, privacy)
    return run_audit(
        EMPTY_LAKE, "credit", DAY, plan=PLAN, executor=IN_PROCESS, external_inputs=supplied
    )


@pytest.mark.slow
def test_rows_of_a_query_are_audited_as_the_same_rows_of_a_file(tmp_path, bank):
    world().write_parquet(tmp_path / "scores.parquet")
    file = settings(
        query=None, database=None, table=str(tmp_path / "scores.parquet"), day="scored_on"
    )
    asked, read = audit(settings(), DECLARED), audit(file, DECLARED)
    assert asked.audit.verdict == "violated", asked.audit.reason
    assert asked.audit.records == read.audit.records
    assert asked.audit.epsilon_lower == read.audit.epsilon_lower > 1.0
    assert asked.audit.labels_digest == read.audit.labels_digest
    assert "hunter2" not in asked.model_dump_json()
    assert str(bank.port) not in str(asked.audit.source)
    query = """
        select right(application_id, -1)::numeric(12) as id, defaulted::smallint as defaulted,
          pd_today::text::numeric as pd_today, pd_yesterday::text::numeric as pd_yesterday,
          split::varchar(7) as split, now() as unread, gen_random_uuid() as unread_too
        from applications where scored_on = $1::date
    """
    typed = audit(settings(query=query, record="id"))
    assert typed.audit.records == asked.audit.records
    assert typed.audit.epsilon_lower == pytest.approx(asked.audit.epsilon_lower, abs=0.2)


@pytest.mark.slow
@pytest.mark.usefixtures("bank")
def test_the_order_in_which_a_server_returns_rows_changes_nothing(limit):
    first = audit(settings())
    limit("DATABASE_BATCH_ROWS", 170)  # twelve batches and another order
    second = audit(settings())
    assert first.audit.audit_id == second.audit.audit_id
    assert first.audit.epsilon_lower == second.audit.epsilon_lower


@pytest.mark.slow
def test_verify_asks_the_query_again_and_says_what_it_cannot_know(bank):
    record = seal(audit(settings()))
    assert verify(record, EMPTY_LAKE, IN_PROCESS).finding is Finding.REPRODUCED
    run(bank, "update applications set defaulted = 1 - defaulted "
              "where scored_on = '2026-03-02' and application_id = 'a7'")  # fmt: skip
    changed = verify(record, EMPTY_LAKE, IN_PROCESS)
    assert changed.finding is Finding.INPUTS_CHANGED
    assert "labels_digest" in changed.sentence
    assert "keeps no earlier state" in changed.sentence
    run(bank, "delete from applications")
    gone = verify(record, EMPTY_LAKE, IN_PROCESS)
    assert gone.finding is Finding.INPUTS_CHANGED
    assert "returns no row for 2026-03-02" in gone.sentence


@pytest.mark.slow
def test_rows_that_name_no_record_are_told(bank):
    run(bank, "update applications set application_id = null where application_id = 'a1'")
    told = audit(settings()).audit
    assert (told.status, told.detail) == ("not_evaluable", Reason.RECORD_UNJOINED)
    assert told.reason.startswith("1 rows of the query of the database bank have no value in 'appl")


def refused(given: str, **changes: Any) -> str:
    query = QUERY.replace("select", given) if given.endswith(",") else given
    with pytest.raises(NotEvaluableError) as told:
        laid_out(settings(query=query, **changes))
    assert told.value.sentence.count("\n") == 0
    return told.value.sentence


def laid_out(tables: ScoreTables, deadline: dt.datetime | None = None) -> None:
    with contextlib.ExitStack() as made:
        source = find_scores("credit", DAY, SuppliedScores(tables))
        joining = JoinContext(IN_PROCESS, made, None, deadline)
        source.find_partition(joining=joining)


DIVISION = """
select 1 / (defaulted - defaulted) as application_id, defaulted, pd_today, pd_yesterday, split
from applications where scored_on = $1
"""


@pytest.mark.usefixtures("bank")
def test_a_query_that_does_not_fit_gets_a_sentence():
    for given, words in (
        ("select nope,", 'refuses the statement (SQLSTATE 42703): column "nope" does not exist'),
        ("select select $1", "SQLSTATE 42601"),
        ("select 1 from nowhere where x = $1", "SQLSTATE 42P01"),
        ("select 'train' as split,", "has several columns 'split'"),
        (QUERY.replace("= $1", "= $1 + 9"), "returns no row for 2026-03-02"),
        (DIVISION, "SQLSTATE 22012"),
    ):
        assert words in refused(given)
    assert "has no column 'churned'" in refused(QUERY, label="churned")


@pytest.mark.usefixtures("bank")
def test_disk_does_not_depend_on_who_writes_the_rows(limit):
    """Rows without end filled the disk."""
    limit("QUERY_BYTES", 1_000)
    assert "returns more than 1,000 bytes" in refused(QUERY)


def test_a_value_is_never_quoted(bank):
    run(bank, "update applications set split = 'ssn-123' where application_id = 'a1'")
    told = refused("select split::int + 1 as x,")
    assert "SQLSTATE 22P02" in told
    assert "ssn" not in told


def test_a_query_can_write_nothing(bank):
    run(bank, "create or replace function erase() returns int language sql as "
              "'delete from applications returning 1'")  # fmt: skip
    assert "read-only" in refused("select erase() as x,")
    assert rows_left(bank) == 2 * ROWS


@pytest.mark.usefixtures("bank")
def test_a_slow_query_is_ended_by_the_server(limit):
    limit("DATABASE_SECONDS", 0.3)
    told = refused("select pg_sleep(20) as slow,")
    assert "ended the query after 0.3 seconds" in told


def test_a_server_that_stops_answering_does_not_hold_the_audit(bank, limit, monkeypatch):
    limit("DATABASE_SECONDS", 1.0)
    monkeypatch.setattr(workers.sources.scores.query_rows, "_GRACE", 0.5)
    limit("DATABASE_BATCH_ROWS", 100)
    rows = rows_of("bank", QUERY, DAY)
    assert next(rows).num_rows == 100
    bank.send(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(TransientError, match="gave no answer within 1 seconds"):
            next(rows)
        assert time.monotonic() - begun < 10.0
    finally:
        bank.send(signal.SIGCONT)


@pytest.mark.usefixtures("bank")
def test_a_deadline_ends_the_reading():
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    with pytest.raises(NotEvaluableError, match="had given all rows") as told:
        laid_out(settings(), past)
    assert told.value.reason is Reason.DEADLINE


@pytest.mark.slow
def test_a_database_that_goes_away_in_the_middle_may_come_again(limit, monkeypatch, tmp_path):
    with postgresql() as server:
        monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", server.uri(ENCODED))
        run(server, "create table applications as select $$2026-03-02$$::date as scored_on, "
                    "g::text as application_id, 0 as defaulted, 0.5::float8 as pd_today, "
                    "0.4::float8 as pd_yesterday, 'train' as split "
                    "from generate_series(1, 500000) g")  # fmt: skip
        limit("DATABASE_BATCH_ROWS", 2_000)
        query = QUERY.replace("order by random()", "")
        killer = threading.Timer(1.0, server.kill)
        killer.start()

        def read_on() -> None:
            while True:  # the server dies in the middle of one of the readings
                laid_out(settings(query=query))

        with pytest.raises(TransientError) as told:
            read_on()
        assert "went away in the middle" in str(told.value) or "cannot be reached" in str(
            told.value
        )
        assert not list(pathlib.Path(str(tmp_path)).glob("*.rows"))
        with pytest.raises(TransientError, match="cannot be reached"):
            laid_out(settings(query=query))


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://audit:{PASSWORD}@127.0.0.1:1/bank",  # its slash makes the port "hunter2-is"
        "postgresql://audit:hunter2-is%2Fsecret@127.0.0.1:1/bank",
        f"mysql://audit:{PASSWORD}@127.0.0.1/bank",
        f"{PASSWORD}",
    ],
)
def test_no_part_of_an_address_is_told(address, monkeypatch, caplog, capfd):
    monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", address)
    supplied = SuppliedScores(settings())
    with pytest.raises(AuditError) as told:
        find_scores("credit", DAY, supplied)
    assert told.value.__suppress_context__ or told.value.__context__ is None
    records = []
    with contextlib.suppress(TransientError):
        records = list(run_audits(
            EMPTY_LAKE, DAY, [Request("credit", PLAN, external_inputs=supplied)],
            executor=IN_PROCESS,
        ))  # fmt: skip
    everything = f"{told.value!r} {records} {caplog.text} {capfd.readouterr()}"
    assert "PRIVAUDIT_DATABASE_BANK" in str(told.value) or "begins with no scheme" in str(
        told.value
    )
    assert "hunter2" not in everything


def test_a_database_without_an_address_or_driver_is_told(monkeypatch):
    monkeypatch.delenv("PRIVAUDIT_DATABASE_BANK", raising=False)
    with pytest.raises(TerminalError, match="set PRIVAUDIT_DATABASE_BANK in the environment"):
        find_scores("credit", DAY, SuppliedScores(settings()))
    monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", "postgresql://a:b@c/d")
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(TerminalError, match=r"install privaudit\[sql\]"):
        find_scores("credit", DAY, SuppliedScores(settings()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"database": None}, "query and database go together"),
        ({"query": "select * from applications"}, "no parameter for the day"),
        ({"query": "select 1 where $1 = x;"}, "ends with a semicolon"),
        ({"record": None}, "have no fixed order"),
        ({"version": 3}, "join them in it"),
        ({"proxy": {"table": "t", "column": "p"}}, "join them in it"),
        ({"database": "postgresql://audit:hunter2@host/bank"}, "should match pattern"),
    ],
)
def test_settings_that_do_not_fit_are_told(changes, told):
    with pytest.raises(ValidationError, match=told):
        settings(**changes)


@pytest.mark.parametrize("kind", [pa.ArrowInvalid, pa.ArrowNotImplementedError])
def test_a_column_that_no_reader_has_a_kind_for_is_a_sentence(kind):
    """A database's intervals and rows were unexpected errors."""
    refused = pytest.raises(NotEvaluableError, match="of a kind that is not read")
    with refused, plain_kinds(settings()):
        raise kind("Unhandled type\nof a column")


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_label_that_is_never_known_does_not_play(zone):
    """PostgreSQL's `infinity` was a time of long ago, so that rows without a label played."""
    kind, others = pa.timestamp("us", zone), [0, None, -(1 << 63) + 946_684_800_000_000]
    given = pa.table({"known": pa.array([_INFINITY, *others], pa.int64()).cast(kind)})
    known = stored(settings(known_at="known"), given)["known"]
    assert known.type == kind
    assert known.cast(pa.int64()).to_pylist() == [(1 << 63) - 1, *others]

import datetime as dt
import json
import pathlib

import polars as pl
import pytest

from flows.notify.events import Kind
from flows.run.upkeep import delete_audits, withdraw_audit
from flows.settings import load_settings
from tests.support.lake import DAY, EVE, PLAN, label_rows, put_labels, small_lake, write_settings
from tests.support.warehouse import USER, commit_night, evaluated, failed, night, put_rows, tamper
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.warehouse.store import Warehouse

USAGE = 64
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def warehouse(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    records = [
        evaluated("good", EVE, hour=1, reason="First."),
        evaluated("good", DAY, hour=26, reason="Second.", verdict="violated"),
        failed("good", DAY, hour=27),
    ]
    put_rows(warehouse, records)
    return warehouse


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "known"),
    [
        ("2026-04-01", 0),
        ("2026-04-01T01:00", 1),
        ("2026-04-01T03:00+02:00", 1),
        ("2026-04-01T02:59+02:00", 0),
        ("2026-04-02T02:00Z", 2),
        ("2026-05-01T12:00", 3),
    ],
)
@pytest.mark.usefixtures("warehouse")
def test_what_was_known_at_a_moment_is_asked_for_in_iso_8601(privaudit, moment, known):
    _, out, _ = privaudit("sql", "select count(*) n from audits", "--as-of", moment, "--json")
    assert json.loads(out) == [{"n": known}]
    code, out, _ = privaudit("show", "--as-of", moment, "--json")
    assert code == 0
    assert [row["reason"] for row in json.loads(out)] == [[], ["First."], ["Second."]][
        min(known, 2)
    ]


@pytest.mark.usefixtures("warehouse")
def test_a_moment_that_is_none_is_refused(privaudit):
    code, _, err = privaudit("show", "--as-of", "yesterday")
    assert code == USAGE
    assert "YYYY-MM-DDTHH:MM" in err


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
def test_export_writes_files_and_says_which(privaudit):
    code, out, _ = privaudit("export", "--output", "out", "--json")
    assert code == 0
    files = [pathlib.Path(name) for name in json.loads(out)]
    assert pathlib.Path("out/latest_audits.parquet") in files
    assert pl.read_parquet("out/audits.parquet").height == 3
    code, out, _ = privaudit("export", "--output", "out", "--as-of", "2026-04-01T01:00")
    assert code == 0
    assert "out/audits.parquet" in out.splitlines()
    assert pl.read_parquet("out/audits.parquet").height == 1


@pytest.mark.slow
def test_compact_says_what_it_did_and_deletes_only_where_asked(privaudit, warehouse):
    warehouse.commit([evaluated("other", DAY)])
    code, out, _ = privaudit("compact", "--json")
    assert code == 0
    done = {row["table"]: row for row in json.loads(out)}
    assert (done["audits"]["files_before"], done["audits"]["files_after"]) == (2, 1)
    assert warehouse.scan("audits").collect().height == 4
    code, out, _ = privaudit("compact", "--delete-before", str(DAY))
    assert code != 0  # nobody answered the question
    assert warehouse.scan("audits").collect().height == 4
    code, out, _ = privaudit("compact", "--delete-before", str(DAY), "--yes")
    assert (code, "1 audits deleted." in out) == (0, True)
    assert warehouse.scan("audits").collect().height == 3
    code, _, err = privaudit("compact", "--retain", "0")
    assert (code, err.count("\n")) == (3, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_verify_tells_by_its_exit_code(privaudit, tmp_path):
    lake = small_lake(tmp_path / "lake")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    key = warehouse.digest_key()
    record = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess(), digest_key=key)
    warehouse.commit([record])
    audit_id = record.audit.audit_id

    code, out, _ = privaudit("verify", audit_id)
    assert (code, "reproduced to the bit" in out) == (0, True)
    code, out, _ = privaudit("verify", "--stored")
    assert (code, "as committed" in out) == (0, True)
    warehouse.commit([failed("other", DAY)])
    code, out, _ = privaudit("verify", "--stored")
    assert (code, out.strip()) == (0, "2 of 2 records are intact.")

    def add(number):
        tamper(warehouse, "audit_bounds", lambda row: row.update(correct=row["correct"] + number))

    def end_with(number):
        def ended(row):
            row["window_log_wealth"][-1] = number

        tamper(warehouse, "audit_wealth", ended)

    add(-1.0)
    code, out, _ = privaudit("verify", audit_id, "--json")
    (found,) = json.loads(out)
    assert (code, found["finding"]) == (1, "altered")
    assert {one["column"] for one in found["differences"]} == {"correct"}
    assert privaudit("verify", audit_id, "--stored")[0] == 1
    code, out, _ = privaudit("verify", audit_id)
    assert "audit_bounds.correct arm=audit" in out
    assert "more: --json lists them all" in out

    add(1.0)
    numbers = record.wealth[0].window_log_wealth or ()
    end_with(7.0)
    code, out, _ = privaudit("verify", audit_id)
    assert (code, "altered" in out) == (1, True)
    where = f"audit_wealth.window_log_wealth at place {len(numbers)}"
    assert f"{where}: stored 7.0, recomputed {numbers[-1]} (1 of its {len(numbers)} " in out

    end_with(numbers[-1])
    put_labels(lake, DAY, label_rows(400, seed=7))
    code, out, _ = privaudit("verify", audit_id)
    assert (code, "labels_digest" in out) == (2, True)
    assert privaudit("verify", "nothing")[0] == 3
    code, _, err = privaudit("verify")
    assert (code, "AUDIT_ID" in err) == (USAGE, True)


def test_an_audit_is_withdrawn_by_its_id_and_for_a_reason(privaudit, warehouse):
    (violated,) = warehouse.current().filter(verdict="violated")["audit_id"]
    assert privaudit("withdraw", violated)[0] == USAGE
    assert warehouse.current()["verdict"].to_list() == ["not_refuted", "violated"]
    short = privaudit("withdraw", violated[:3], "--why", "The wrong lake.")
    assert (short.code, short.err) == (
        3,
        f"privaudit: '{violated[:3]}' is too short: give at least 4 characters of an audit's id.\n",
    )
    assert privaudit("withdraw", violated[:8], "--why", "The wrong lake.")[:2] == (
        0,
        f"{violated} is withdrawn; privaudit report draws the pages without it.\n",
    )
    assert warehouse.current()["verdict"].to_list() == ["not_refuted", "failed"]
    code, _, said = privaudit("withdraw", violated, "--why", "Again.")
    assert (code, "The wrong lake." in said) == (3, True)
    _, out, _ = privaudit("sql", "select why from audit_notes", "--json")
    assert json.loads(out) == [{"why": "The wrong lake."}]


def test_whoever_takes_an_audit_back_is_told_of(tmp_path, alerts):
    """Only the first page said so, and an operator's act turned a standing."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    first = commit_night(warehouse, "violated")
    assert withdraw_audit(settings, first, why="It proved 0.93.") == ()
    (alert,) = alerts
    assert (alert.kind, alert.model, alert.day) == (Kind.WITHDRAWN, "ads", DAY)
    told = f"{USER} took back the audit {first[:8]}, which was violated: It proved 0.93."
    assert alert.reason == told


def test_refutations_that_are_deleted_are_told_of(tmp_path, alerts):
    """Deleting the days that accuse turned a standing, and nobody heard of it."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    commit_night(warehouse, "violated", day=EVE)
    deleted, undelivered = delete_audits(settings, DAY)
    assert (deleted, undelivered) == (1, ())
    (alert,) = alerts
    assert (alert.kind, alert.model, alert.notify) == (Kind.WITHDRAWN, "ads", ())
    assert "of which 1 refute what ads declared" in alert.reason


def test_nights_that_refute_together_are_not_deleted_in_silence(tmp_path, alerts):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    put_rows(warehouse, [night(ahead, 1.6) for ahead in range(4)])
    delete_audits(settings, DAY + dt.timedelta(days=3))
    (alert,) = alerts
    assert (alert.kind, alert.model) == (Kind.WITHDRAWN, "ads")
    assert "with its other nights those of ads refute what it declared" in alert.reason

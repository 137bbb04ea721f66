"""A run that ended early: a record of each audit that it did not come to, alerts, the report."""

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from flows.ledger import Ledger
from flows.notify import alerts
from flows.notify.webhook import WebhookError
from flows.run.aftermath import RunEndedError, record_lost
from flows.run.auditing import identity
from tests.support.lake import DAY, PLAN, write_settings
from tests.support.tiers import rest_slow
from workers.audit.record import error_record
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

_KILLED_AT = """
import os, signal, sys
from flows import supervisor
from flows.run import auditing

moment, sys.argv = sys.argv[1], ["privaudit", *sys.argv[2:]]
report = auditing.report_to_watcher

def report_or_die(**event):
    if moment in event:
        os.kill(os.getpid(), signal.SIGKILL)
    report(**event)

auditing.report_to_watcher = report_or_die
supervisor.main()
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Alerts that were delivered."""
    alerted: list[Any] = []
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr(alerts, "deliver", lambda alert, _: alerted.append(alert))
    return alerted


@pytest.mark.slow
def test_what_is_left_has_a_record_an_alert_and_a_page(
    tmp_path: pathlib.Path, told: list[Any]
) -> None:
    write_settings(tmp_path, ["done", "left"])
    ledger = _ledger(tmp_path, ["done", "left"], committed=["done"], announced=["done"])
    assert record_lost(ledger, "The disk is full.") == [f"left for {DAY}"]
    done, row = _rows(tmp_path)
    assert (done["model"], done["reason"]) == ("done", _reason("The bus is late."))
    assert (row["model"], row["day"], row["status"]) == ("left", DAY, "error")
    assert row["reason"] == _reason("The disk is full.")
    assert row["asked_by"].startswith("user ")
    assert not row["exploratory"]
    assert [alert.model for alert in told] == ["left"]
    assert (tmp_path / "report" / "models" / "left.html").exists()


@pytest.mark.slow
def test_what_was_committed_and_not_announced_is_announced_and_not_recorded_twice(
    tmp_path: pathlib.Path, told: list[Any]
) -> None:
    """The process that was killed between a commit and its report left an error over a verdict."""
    write_settings(tmp_path, ["taken", "refused"])
    ledger = _ledger(tmp_path, ["taken", "refused"], committed=["taken"])
    ledger.committing["0" * 32] = ("refused", str(DAY), "label")  # the warehouse never took it
    assert record_lost(ledger, "The disk is full.") == [f"refused for {DAY}"]
    refused, taken = _rows(tmp_path)
    assert (refused["reason"], taken["reason"]) == (
        _reason("The disk is full."),
        _reason("The bus is late."),
    )
    assert {alert.model for alert in told} == {"taken", "refused"}


@pytest.mark.slow
def test_every_secret_of_a_model_has_its_record(tmp_path: pathlib.Path, told: list[Any]) -> None:
    """What was committed of the label stood for the model's other secrets."""
    path = write_settings(tmp_path, ["many"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("[plan]", "membership = true\n[plan]"), encoding="utf-8")
    ledger = _ledger(tmp_path, ["many"], committed=["many"])
    assert record_lost(ledger, "The disk is full.") == [f"many for {DAY}"]
    rows = _rows(tmp_path)
    assert [(row["secret"], row["reason"]) for row in rows] == [
        ("label", _reason("The bus is late.")),
        ("membership", _reason("The disk is full.")),
    ]
    assert len(told) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("moment", rest_slow(["committed", "announced"]))
def test_a_run_that_is_killed_after_its_commit_keeps_its_verdict(
    tmp_path: pathlib.Path, moment: str
) -> None:
    settings = write_settings(tmp_path, ["good"])
    run = subprocess.run(
        [sys.executable, "-c", _KILLED_AT, moment, "run", "--model", "good", "--day", str(DAY)],
        cwd=tmp_path,
        env=os.environ | {"PRIVAUDIT_CONFIG": str(settings)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 3, run.stderr
    assert "ended by SIGKILL" in run.stderr
    assert "every audit that was begun has its record" in run.stderr
    (row,) = _rows(tmp_path)
    assert (row["model"], row["status"]) == ("good", "evaluated")
    assert (tmp_path / "report" / "models" / "good.html").exists()


@pytest.mark.slow
def test_a_webhook_that_takes_nothing_costs_no_record(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first alert that was not delivered ended the loop, and with it the records after it."""

    def refused(*_: Any) -> None:
        raise WebhookError("The webhook is silent.")

    write_settings(tmp_path, ["one", "two"])
    monkeypatch.setattr(alerts, "deliver", refused)
    ledger = _ledger(tmp_path, ["one", "two"])
    assert record_lost(ledger, "The disk is full.") == [f"one for {DAY}", f"two for {DAY}"]
    assert len(Warehouse(str(tmp_path / "warehouse")).current()) == 2
    assert (tmp_path / "report" / "models" / "two.html").exists()


def _ledger(
    folder: pathlib.Path,
    planned: list[str],
    *,
    committed: list[str] | tuple[()] = (),
    announced: list[str] | tuple[()] = (),
) -> Ledger:
    """Return the ledger of a run that planned these, and commit those that it committed."""
    ledger = Ledger(str(folder / "privaudit.toml"))
    ledger.planned.update(dict.fromkeys((model, str(DAY)) for model in planned))
    for model in committed:
        record = _earlier(model)
        assert Warehouse(str(folder / "warehouse")).commit(record)
        audit_id, *of = identity(record.audit)
        ledger.committing[audit_id] = (of[0], of[1], of[2])
        if model in announced:
            ledger.announced.add(audit_id)
    return ledger


def _earlier(model: str) -> AuditRecord:
    return error_record(model, DAY, plan=PLAN, error=RunEndedError("The bus is late."))


def _reason(why: str) -> str:
    return f"The audit ended with RunEndedError: {why}"


def _rows(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Return every record that was ever committed, by model and secret."""
    audits = Warehouse(str(folder / "warehouse")).scan("audits").collect()
    return audits.sort("model", "secret").to_dicts()

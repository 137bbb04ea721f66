"""A run that ended early: a record of each audit that it did not come to, alerts, the report."""

import pathlib
from typing import Any

import pytest

from flows.ledger import Ledger
from flows.notify import alerts
from flows.notify.webhook import WebhookError
from flows.run.aftermath import record_lost
from tests.support.lake import DAY, write_settings
from workers.warehouse.store import Warehouse


def test_what_is_left_has_a_record_an_alert_and_a_page(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(tmp_path, ["done", "left"])
    told: list[Any] = []
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setattr(alerts, "deliver", lambda alert, _: told.append(alert))
    planned = dict.fromkeys([("done", str(DAY)), ("left", str(DAY))])
    ledger = Ledger(str(tmp_path / "privaudit.toml"), dict(planned), [("done", str(DAY))])
    assert record_lost(ledger, "The disk is full.") == [f"left for {DAY}"]
    (row,) = Warehouse(str(tmp_path / "warehouse")).current().iter_rows(named=True)
    assert (row["model"], row["day"], row["status"]) == ("left", DAY, "error")
    assert row["reason"] == "The audit ended with RunEndedError: The disk is full."
    assert [alert.model for alert in told] == ["left"]
    assert (tmp_path / "report" / "models" / "left.html").exists()


def test_a_webhook_that_takes_nothing_costs_no_record(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first alert that was not delivered ended the loop, and with it the records after it."""

    def refused(*_: Any) -> None:
        raise WebhookError("The webhook is silent.")

    write_settings(tmp_path, ["one", "two"])
    monkeypatch.setattr(alerts, "deliver", refused)
    planned = dict.fromkeys([("one", str(DAY)), ("two", str(DAY))])
    ledger = Ledger(str(tmp_path / "privaudit.toml"), dict(planned), [])
    assert record_lost(ledger, "The disk is full.") == [f"one for {DAY}", f"two for {DAY}"]
    assert len(Warehouse(str(tmp_path / "warehouse")).current()) == 2
    assert (tmp_path / "report" / "models" / "two.html").exists()

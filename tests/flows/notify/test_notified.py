"""Whoever is taken out of `notify` still hears that the settings changed."""

import datetime as dt
import json
import pathlib

import pytest

from flows.notify.alerts import declaration_alert, settings_alert
from flows.notify.notified import notified_lately
from flows.settings import Settings, load_settings
from tests.support.lake import write_settings
from tests.support.warehouse import evaluated
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 20)


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    """Return settings that notify "#ads" of the model's alerts."""
    path = write_settings(tmp_path, ["ads"])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('name = "ads"', 'name = "ads"\nnotify = ["#ads"]'), "utf-8")
    return load_settings(path)


def committed(settings: Settings, *nights: tuple[int, list[str] | None]) -> AuditRow:
    """Commit records of days before, with the names that each was asked with."""
    row = None
    for before, names in nights:
        record = evaluated("ads", DAY - dt.timedelta(days=before))
        kept = {"notify": None if names is None else json.dumps(names)}
        record = record.model_copy(update={"audit": record.audit.model_copy(update=kept)})
        Warehouse(settings.warehouse).commit(record)
        row = record.audit
    assert row is not None
    return row


@pytest.mark.slow
def test_names_of_the_week_before_are_added(settings: Settings) -> None:
    assert notified_lately("ads", DAY, settings) == ("#ads",)
    committed(settings, (8, ["long ago"]), (7, ["anna", "#ads"]), (2, None), (0, ["#ads"]))
    assert notified_lately("ads", DAY, settings) == ("#ads", "anna")
    assert notified_lately("other", DAY, settings) == ()


def test_the_alert_of_changed_settings_alone_goes_to_them(settings: Settings) -> None:
    """With the names taken out, the alert that said so reached only those who were left."""
    row = committed(settings, (1, ["anna", "#ads"]), (0, ["#ads"]))
    assert settings_alert(row, "Another plan.", settings).notify == ("#ads", "anna")
    assert declaration_alert(row, "It declares 2.", settings).notify == ("#ads",)

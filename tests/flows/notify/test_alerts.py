"""Events go to Prefect and to the webhook."""

from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.notify import alerts
from flows.notify.alerts import deliver
from flows.notify.events import Event, Kind
from flows.notify.incidents import Stage
from flows.settings import Settings
from tests.support.lake import DAY


def test_an_event_is_about_its_model_and_says_its_stage(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[dict[str, Any]] = []
    monkeypatch.setattr(alerts, "emit_event", lambda **given: emitted.append(given))
    event = Event(Kind.VIOLATED, "ads", DAY, "It is.", "So.", stage=Stage.GOES_ON)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        deliver(event, settings)
        assert emitted == []  # outside of a run, no server is started to hear it
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        deliver(event, settings)
    (told,) = emitted
    assert told["event"] == "privaudit.violated"
    assert told["resource"]["prefect.resource.id"] == "privaudit.model.ads"
    assert told["resource"]["privaudit.stage"] == "goes_on"
    assert told["id"] == event.id
    assert told["payload"] == event.payload()

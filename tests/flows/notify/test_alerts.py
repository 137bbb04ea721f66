import datetime as dt
import json
import math
import pathlib
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.notify import alerts
from flows.notify.alerts import (
    Event,
    alert_of,
    declaration_alert,
    deliver,
    inputs_alert,
    missing_alert,
    remarks_alert,
    standing_alert,
    total_alert,
    unlisted_alert,
)
from flows.notify.artifacts import counted, summary
from flows.settings import Settings, load_settings
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import evaluated, night, put_rows
from workers.audit.label_state import declaration_location, label_column_warning
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together
from workers.warehouse.unlisted import Unlisted

MANIFEST = declaration_location("computed", None)
SETTINGS = declaration_location("supplied", None)


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    file = tmp_path / "privaudit.toml"
    file.write_text(
        'lake = "l"\nwarehouse = "w"\nreport = "r"\nreport_url = "https://example.com/r/"\n'
        '[[models]]\nname = "ads"\nnotify = ["ads@example.com"]\ndeadline = "07:30"\n'
        '[night]\ntime_zone = "Europe/Amsterdam"\n'
    )
    return load_settings(file)


def row(verdict: str = "violated", model: str = "ads", **changes: Any) -> AuditRow:
    empty = dict.fromkeys(AuditRow.model_fields)
    given = {
        "audit_id": "0" * 32, "model": model, "day": DAY, "verdict": verdict,
        "status": Status.EVALUATED, "reason": "It is so.", "epsilon_lower": 1.239,
        "epsilon_declared": 0.5, "secret": "label",
    }  # fmt: skip
    return AuditRow.model_construct(**empty | given | changes)


def test_a_doubt_is_told_when_it_is_new_and_not_with_each_record(settings: Settings) -> None:
    doubtful = row("doubtful", remarks=("rows_miscounted", "rows_left_out"))
    assert alert_of(doubtful, settings) is None
    alert = remarks_alert(doubtful, ("rows_miscounted",), settings)
    assert alert.event == "privaudit.claim.remarked"
    assert alert.subject.endswith("it is doubtful")
    assert alert.reason == "New since 28 days: rows miscounted. It is so."
    assert alert.next_step.startswith("doubtful. Next (privacy engineer")
    other = remarks_alert(row("consistent", remarks=("rows_left_out",)), ("x",), settings)
    assert other.subject.endswith("its audit has a new remark")


@pytest.mark.parametrize(
    ("verdict", "status", "event"),
    [
        ("violated", Status.EVALUATED, "privaudit.claim.violated"),
        ("not_a_guarantee", Status.EVALUATED, "privaudit.claim.not_a_guarantee"),
        ("vacuous", Status.EVALUATED, "privaudit.claim.vacuous"),
        ("proxy_unfaithful", Status.EVALUATED, "privaudit.claim.proxy_unfaithful"),
        ("not_evaluable", Status.NOT_EVALUABLE, "privaudit.claim.not_evaluable"),
        ("not_evaluable", Status.ERROR, "privaudit.audit.failed"),
    ],
)
def test_a_record_that_asks_for_a_look_is_told(
    settings: Settings, verdict: str, status: Status, event: str
) -> None:
    alert = alert_of(row(verdict, status=status), settings)
    assert alert is not None
    assert alert.event == event
    payload = json.loads(json.dumps(alert.payload(), allow_nan=False))
    assert (payload["model"], payload["day"]) == ("ads", str(DAY))
    assert payload["figures"]["epsilon_lower"] == 1.239
    assert ". Next (" in payload["next_step"]
    assert "\n" not in payload["next_step"]
    assert payload["report"] == "https://example.com/r/"
    assert payload["notify"] == ["ads@example.com"]


@pytest.mark.parametrize("verdict", ["consistent", "undeclared"])
def test_a_verdict_that_nobody_needs_to_look_at_is_not_told(
    settings: Settings, verdict: str
) -> None:
    assert alert_of(row(verdict), settings) is None


def test_the_same_record_gives_the_same_id_and_another_gives_another(settings: Settings) -> None:
    def identity(**changes: Any) -> Any:
        alert = alert_of(row(**changes), settings)
        assert alert is not None
        return alert.id

    assert identity() == identity(reason="Said otherwise.")
    others = [{"model": "b"}, {"audit_id": "1"}, {"verdict": "proxy_unfaithful"}]
    assert len({identity(), *(identity(**other) for other in others)}) == 4


def test_a_figure_that_json_has_not_is_null(settings: Settings) -> None:
    alert = alert_of(row(epsilon_lower=math.inf, claim_pvalue=math.nan), settings)
    assert alert is not None
    assert alert.payload()["figures"]["epsilon_lower"] is None
    assert alert.payload()["figures"]["claim_pvalue"] is None


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, MANIFEST),
        ({"scores": "supplied"}, SETTINGS),
        ({"label_column_holds": "secret"}, None),
        ({"label_column_holds": "no_responses"}, None),
        ({"mechanism": "gaussian"}, None),
        ({"mechanism": None}, MANIFEST),
        ({"mechanism": None, "label_column_holds": "secret"}, None),
        ({"secret": "label"}, MANIFEST),
        ({"secret": "membership"}, None),
        ({"secret": "attribute:city", "mechanism": None}, None),
    ],
)
def test_a_standing_asks_what_the_label_column_holds_where_nobody_says(
    settings: Settings, changes: dict[str, Any], where: str | None
) -> None:
    given = {"scores": "computed", "mechanism": "randomized_response"} | changes
    alert = standing_alert(row("consistent", **given), 0.7319, settings)
    assert alert.event is Event.STANDS_VIOLATED
    told = (
        "The nights of this standing, each held against what was declared for it, refute together "
        "that every declaration was true; this night alone does not. Under this night's family and "
        "delta they prove that the loss is at least 0.73. A day that was audited again also counts "
        "as first audited, until an operator withdraws that."
    )
    if where is not None:
        told += f" {label_column_warning(given['mechanism'], None, said=where)}"
    assert alert.reason == told


@pytest.mark.parametrize(
    ("now", "event"),
    [
        ("8 for replacing", Event.DECLARATION_CHANGED),
        ("nothing", Event.DECLARATION_WITHDRAWN),
    ],
)
def test_a_changed_declaration_is_told(settings: Settings, now: str, event: Event) -> None:
    change = f"Declared was 3.6 for replacing until 2026-03-01, and is {now} on 2026-03-02."
    alert = declaration_alert(row("consistent"), change, settings)
    assert alert.event is event
    assert alert.reason == f"{change} Each night stays held against what was declared for it."


def test_changed_inputs_and_a_missed_model_are_told(settings: Settings) -> None:
    changed = inputs_alert(row("consistent"), "inputs_changed: The labels did.", settings)
    assert (changed.event, changed.reason) == (
        Event.INPUTS_CHANGED,
        "inputs_changed: The labels did.",
    )
    missed = Unlisted("gone", DAY, ("ads",))
    alert = unlisted_alert(missed, DAY, settings)
    assert (alert.event, alert.model) == (Event.UNLISTED, "gone")
    assert alert.reason == missed.sentence()
    assert alert.notify == ("ads@example.com",)


def test_absence_is_told_with_the_deadline_in_its_zone(settings: Settings) -> None:
    alert = missing_alert("ads", dt.date(2026, 3, 2), settings)
    assert alert.event is Event.MISSING
    assert alert.reason == "No audit of ads for 2026-03-02 was committed by 2026-03-03 07:30 CET."


def test_an_alert_is_an_event_about_its_model(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[dict[str, Any]] = []
    monkeypatch.setattr(alerts, "emit_event", lambda **given: emitted.append(given))
    alert = alert_of(row(), settings)
    assert alert is not None
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        deliver(alert, settings)
        assert emitted == []  # outside of a run, no server is started to hear it
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        deliver(alert, settings)
    (event,) = emitted
    assert event["event"] == "privaudit.claim.violated"
    assert event["resource"]["prefect.resource.id"] == "privaudit.model.ads"
    assert event["id"] == alert.id
    assert event["payload"] == alert.payload()


def test_a_summary_counts_rounds_towards_zero_and_puts_the_worst_first() -> None:
    rows = [row("consistent"), row("violated"), row("not_evaluable", status=Status.ERROR)]
    assert counted(rows) == "1 error, 1 violated, 1 consistent."
    assert counted([]) == "No audit."
    assert "| 1.23 | 0.5 |" in summary("Night", rows, report=None)


def test_two_changes_of_one_night_are_two_alerts(settings: Settings) -> None:
    """A receiver drops an alert whose id it knows: one change hid the other."""
    row = evaluated("ads", DAY).audit
    told = ["A manifest changed.", "Labels came late.", "A manifest changed."]
    assert len({inputs_alert(row, one, settings).id for one in told}) == 2


def test_a_total_that_is_exceeded_by_more_is_another_alert(
    tmp_path: pathlib.Path,
) -> None:
    """A receiver drops an alert whose id it knows: 9 and 59 about the same labels had one."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    given = {"dataset": "clicks", "neighbors": "replace", "declared_by": "anna"}
    ids = set()
    for ahead, epsilon in enumerate((9.0, 50.0)):
        put_rows(warehouse, [night(ahead, epsilon_declared=epsilon, trained_since=DAY, **given)])
        (found,) = together(warehouse, DAY + dt.timedelta(days=ahead))
        assert found.day == DAY
        ids.add(total_alert(found, found.sentence(8.0), settings).id)
    assert len(ids) == 2


SEEING = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2, "epsilon_lower": 0.0}


REFUTED = SEEING | {"verdict": "violated", "epsilon_lower": 1.0}


def test_an_alert_about_one_runs_plan_says_that_seeds_can_be_tried(settings: Settings) -> None:
    """Of a hundred seeds some accuse an honest model, in the words of a night's own verdict."""
    tried = alert_of(night(0, **REFUTED | {"exploratory": True}).audit, settings)
    asked = alert_of(night(0, **REFUTED).audit, settings)
    assert tried is not None
    assert asked is not None
    assert "by another plan" in tried.subject
    assert "of several plans or seeds one may refute what is true" in tried.reason
    assert "by another plan" not in asked.subject
    assert "seeds" not in asked.reason
    assert (tried.incident, asked.incident is None) == (None, False)

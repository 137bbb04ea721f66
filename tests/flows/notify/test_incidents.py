"""One incident per model and declaration: begun once, updated, and resolved by a night that saw."""

import datetime as dt
from typing import Any

import polars as pl
import pytest

import flows.notify.incidents
import flows.run.auditing
import flows.run.conclusion
from flows.notify.alerts import Event, alert_of
from flows.notify.incidents import REACH, Stage, incident_id, incidents_before, resolves
from flows.run.auditing import _of_incident
from flows.run.conclusion import _beside
from flows.settings import Settings
from privcore.exceptions import TransientError
from tests.support.lake import DAY, EVE
from tests.support.tiers import rest_slow
from tests.support.warehouse import commit_night, evaluated, failed, put_rows
from tests.support.warehouse import night as night_of
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import Windows

SEEING = {"epsilon_ceiling": 3.0, "epsilon_detectable": 0.8}
"""The audit would have refuted the declared 0.5 if that were false."""
VIOLATED = {"verdict": "violated", "epsilon_lower": 0.9} | SEEING


def night(number: int, **changes: Any) -> AuditRecord:
    return evaluated("ads", DAY + dt.timedelta(days=number), **SEEING | changes)


def events(
    settings: Settings,
    warehouse: Warehouse,
    record: AuditRecord,
    windows: Windows = epsilon_windows,
) -> list[str]:
    """Commit a night, and return the events about its claim that its alerts would have."""
    warehouse.commit(record)
    row = record.audit
    own = _of_incident(alert_of(row, settings), row, settings)
    alerts = [*([own] if own else []), *_beside([row], warehouse, settings, windows)]
    about = [alert for alert in alerts if alert.incident is not None]
    assert {alert.incident for alert in about} <= {incident_id(row)}
    return [alert.event.rsplit(".", 1)[1] for alert in about]


def test_an_incident_begins_once_goes_on_and_is_resolved_once(
    settings: Settings, warehouse: Warehouse
) -> None:
    nights = [VIOLATED, VIOLATED, {}, {}, VIOLATED]
    found = [events(settings, warehouse, night(at, **one)) for at, one in enumerate(nights)]
    assert found == [["violated"], ["still_violated"], ["resolved"], [], ["violated"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    rest_slow(
        [
            {"verdict": "proxy_unfaithful"},
            {"verdict": "doubtful"},
            {"epsilon_ceiling": 0.5},
            {"epsilon_detectable": 1.1},
            {"epsilon_detectable": None},
        ]
    ),
)
def test_a_night_that_could_not_have_seen_a_leak_resolves_nothing(
    settings: Settings, warehouse: Warehouse, changes: dict[str, Any]
) -> None:
    """An owner who holds out next to nothing, or spoils the proxy, ends no incident."""
    assert events(settings, warehouse, night(0, **VIOLATED)) == ["violated"]
    assert events(settings, warehouse, night(1, **changes)) == []
    assert events(settings, warehouse, night(2, **VIOLATED)) == ["still_violated"]


@pytest.mark.slow
def test_a_night_without_figures_resolves_nothing(settings: Settings, warehouse: Warehouse) -> None:
    events(settings, warehouse, night(0, **VIOLATED))
    warehouse.commit(failed("ads", DAY + dt.timedelta(days=1)))
    assert events(settings, warehouse, night(2, **VIOLATED)) == ["still_violated"]


@pytest.mark.slow
def test_another_declaration_model_or_secret_is_an_incident_of_its_own(
    settings: Settings, warehouse: Warehouse
) -> None:
    first = night(0, **VIOLATED)
    events(settings, warehouse, first)
    for changes in ({"epsilon_declared": 0.6}, {"delta_declared": 1e-6}, {"secret": "membership"}):
        other = night(1, **VIOLATED | changes)
        assert incident_id(other.audit) != incident_id(first.audit)
        (state,) = incidents_before(warehouse, [other.audit]).values()
        assert state.told is None
    assert incident_id(night(1, secret="label").audit) == incident_id(first.audit)  # noqa: S106
    (state,) = incidents_before(warehouse, [night(1).audit]).values()
    assert state.told is not None


@pytest.mark.slow
@pytest.mark.parametrize(("days", "event"), [(REACH, "still_violated"), (REACH + 1, "violated")])
def test_after_a_month_without_a_decision_the_incident_begins_anew(
    settings: Settings, warehouse: Warehouse, days: int, event: str
) -> None:
    events(settings, warehouse, night(0, **VIOLATED))
    assert events(settings, warehouse, night(days, **VIOLATED)) == [event]


@pytest.mark.slow
def test_a_rerun_of_the_first_night_sends_the_same_alert(
    settings: Settings, warehouse: Warehouse
) -> None:
    """Otherwise an alert that was cut off between commit and delivery would be lost."""
    record = night(0, **VIOLATED)
    assert events(settings, warehouse, record) == ["violated"]
    assert events(settings, warehouse, record) == ["violated"]


@pytest.mark.slow
def test_a_violated_standing_begins_an_incident_and_keeps_it_open(
    settings: Settings, warehouse: Warehouse
) -> None:
    def standing(*given: Any) -> Any:
        return epsilon_windows(*given).with_columns(
            standing=pl.lit("violated"), epsilon_standing=0.8
        )

    found = [events(settings, warehouse, night(at), standing) for at in range(3)]
    assert found == [["stands_violated"], ["still_violated"], ["still_violated"]]
    assert not resolves(night(3).audit, "violated")


def test_in_doubt_the_alert_is_a_new_one(
    settings: Settings, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One alert too many is better than none."""
    events(settings, warehouse, night(0, **VIOLATED))

    def failing(*_: Any) -> Any:
        raise TransientError("Storage fails.")

    monkeypatch.setattr(flows.run.auditing, "incidents_before", failing)
    row = night(1, **VIOLATED).audit
    alert = _of_incident(alert_of(row, settings), row, settings)
    assert alert is not None
    assert alert.event is Event.VIOLATED


def remarked(settings: Settings, warehouse: Warehouse, number: int, **changes: Any) -> list[str]:
    """Commit a night, and return what its alert of new remarks names."""
    record = night(number, **changes)
    warehouse.commit(record)
    alerts = _beside([record.audit], warehouse, settings, epsilon_windows)
    found = [alert.reason for alert in alerts if alert.event is Event.REMARKED]
    return [reason.removeprefix("New since 28 days: ").split(".")[0] for reason in found]


def test_what_no_night_of_28_days_remarked_on_is_told_once(
    settings: Settings, warehouse: Warehouse
) -> None:
    """An owner who shows the audit other rows from some night on is alerted of, whatever is said.

    Of a first night the doubts alone are told, and a night without figures knows of none.
    """
    doubtful = {"verdict": "doubtful", "remarks": ("rows_miscounted", "rows_left_out")}
    assert remarked(settings, warehouse, 0, remarks=("power_lost",)) == []
    assert remarked(settings, warehouse, 1, **doubtful) == ["rows miscounted, rows left out"]
    assert remarked(settings, warehouse, 2, **doubtful) == []
    warehouse.commit(failed("ads", DAY + dt.timedelta(days=3)))
    assert remarked(settings, warehouse, 4, **doubtful) == []
    assert remarked(settings, warehouse, 5, remarks=("rows_left_out",)) == []
    assert remarked(settings, warehouse, 4 + REACH + 1, **doubtful) == ["rows miscounted"]
    both = VIOLATED | {"remarks": ("classes_exchanged",)}
    assert remarked(settings, warehouse, 4 + REACH + 2, **both) == []


def test_a_first_night_tells_its_doubts_alone(settings: Settings, warehouse: Warehouse) -> None:
    doubtful = {"verdict": "doubtful", "remarks": ("power_lost", "rows_miscounted")}
    assert remarked(settings, warehouse, 0, **doubtful) == ["rows miscounted"]


@pytest.mark.slow
def test_an_incident_that_grows_notifies_again(warehouse: Warehouse, settings: Settings) -> None:
    """A small violation opened an incident in which nobody heard of a large one."""
    commit_night(warehouse, "violated", day=EVE, epsilon_lower=0.6)
    for proved, event, said in (
        (1.5, Event.STILL_VIOLATED, False),
        (1.7, Event.VIOLATED, True),
    ):
        row = evaluated("ads", DAY, verdict="violated", epsilon_lower=proved, epsilon_ceiling=5.0)
        alert = _of_incident(alert_of(row.audit, settings), row.audit, settings)
        assert alert is not None
        assert alert.event is event
        assert ("more than twice the 0.60" in alert.reason) is said


@pytest.mark.slow
def test_an_incident_that_grows_step_by_step_notifies_again(
    warehouse: Warehouse, settings: Settings
) -> None:
    """0.51, 1.5, 2.9 and 5.8: none proves twice as much as all before it."""
    events = []
    for ahead, proved in enumerate((0.51, 1.5, 2.9, 5.8)):
        row = night_of(ahead, verdict="violated", epsilon_lower=proved, epsilon_ceiling=8.0).audit
        alert = _of_incident(alert_of(row, settings), row, settings)
        events.append(None if alert is None else alert.event)
        put_rows(warehouse, [night_of(ahead, verdict="violated", epsilon_lower=proved)])
    assert events == [Event.VIOLATED, Event.STILL_VIOLATED, Event.VIOLATED, Event.STILL_VIOLATED]


SEES = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2, "epsilon_lower": 0.0}


SEES_AND_REFUTED = SEES | {"verdict": "violated", "epsilon_lower": 1.0}


@pytest.mark.parametrize(("chosen", "stage"), [(False, Stage.GOES_ON), (True, Stage.GROWS)])
def test_a_bound_by_a_plan_that_somebody_chose_hushes_no_night(
    warehouse: Warehouse, chosen: bool, stage: Stage
) -> None:
    """The bound of which people last heard was that of another seed, so that none grew beyond."""
    loud = {"epsilon_lower": 9.0, "exploratory": chosen}
    put_rows(
        warehouse,
        [night_of(0, **SEES_AND_REFUTED), night_of(1, hour=24, **SEES_AND_REFUTED | loud)],
    )
    tonight = night_of(2, hour=48, **SEES_AND_REFUTED | {"epsilon_lower": 4.0})
    incident = incidents_before(warehouse, [tonight.audit])[tonight.audit.audit_id]
    assert incident.stage(tonight.audit, 4.0) is stage

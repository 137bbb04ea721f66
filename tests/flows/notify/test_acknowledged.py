"""An acknowledged violation notifies nobody, until it ends, is worse, or is another violation."""

import datetime as dt
from typing import Any

import pytest

from flows.notify.alerts import alert_of
from flows.run.auditing import _of_incident
from flows.settings import Settings
from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.tiers import rest_slow
from tests.support.warehouse import START, evaluated
from workers.warehouse.acknowledgements import LONGEST, acknowledge, acknowledgements, is_larger
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

VIOLATED = {"verdict": "violated", "epsilon_lower": 0.9, "dataset": "clicks"}
KNOWN = "violated_as_known"


def night(number: int, **changes: Any) -> AuditRecord:
    """Return a refuted night that was recorded at noon, that many days after `START`."""
    day = DAY + dt.timedelta(days=number)
    return evaluated("ads", day, hour=24 * number + 12, **VIOLATED | changes)


def event(settings: Settings, warehouse: Warehouse, record: AuditRecord) -> str:
    """Commit a night and return the event of its alert."""
    warehouse.commit(record)
    alert = _of_incident(alert_of(record.audit, settings), record.audit, settings)
    assert alert is not None
    return alert.event.rsplit(".", 1)[1]


def know(warehouse: Warehouse, record: AuditRecord, number: int, *, days: int = 3) -> None:
    """Acknowledge a night on a later day, until `days` after that day."""
    now = START + dt.timedelta(days=number, hours=13)
    until = now.date() + dt.timedelta(days=days)
    audit_id = record.audit.audit_id
    acknowledge(warehouse, audit_id, why="In repair.", until=until, by="user anna", now=now)


@pytest.mark.slow
def test_it_notifies_nobody_until_it_ends_and_then_once(
    settings: Settings, warehouse: Warehouse
) -> None:
    first = night(0)
    assert event(settings, warehouse, first) == "violated"
    know(warehouse, first, 0)
    found = [event(settings, warehouse, night(at)) for at in range(1, 7)]
    assert found == [KNOWN, KNOWN, KNOWN, "violated", "still_violated", "still_violated"]


def test_years_of_audits_are_not_read_where_nothing_was_acknowledged(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alert of a violation asks, and so does every `show`."""
    scanned, scan = [], Warehouse.scan

    def watched(self: Warehouse, table: str) -> Any:
        scanned.append(table)
        return scan(self, table)

    first = night(0)
    warehouse.commit(first)
    monkeypatch.setattr(Warehouse, "scan", watched)
    assert acknowledgements(warehouse) == ()
    assert scanned == ["audit_acknowledgements"]
    know(warehouse, first, 0)
    assert [one.row.why for one in acknowledgements(warehouse)] == ["In repair."]


@pytest.mark.slow
def test_an_incident_that_was_resolved_and_begins_anew_is_known_too(
    settings: Settings, warehouse: Warehouse
) -> None:
    seeing = {"epsilon_ceiling": 3.0, "epsilon_detectable": 0.8}
    first = night(0, **seeing)
    event(settings, warehouse, first)
    know(warehouse, first, 0)
    warehouse.commit(night(1, verdict="consistent", epsilon_lower=0.1, **seeing))
    assert event(settings, warehouse, night(2, **seeing)) == KNOWN


@pytest.mark.slow
def test_a_larger_bound_notifies_and_is_then_known(
    settings: Settings, warehouse: Warehouse
) -> None:
    """An owner cannot have a small leak acknowledged and then make it larger."""
    first = night(0)
    event(settings, warehouse, first)
    know(warehouse, first, 0, days=9)
    bounds = (0.9, 1.2, 1.2, 0.8, 1.21)
    found = [
        event(settings, warehouse, night(at, epsilon_lower=bound))
        for at, bound in enumerate(bounds, start=1)
    ]
    assert found == [KNOWN, "violated", KNOWN, KNOWN, "violated"]


def test_a_digit_that_no_reader_sees_is_no_larger_bound() -> None:
    assert not is_larger(0.904, 0.9)
    assert not is_larger(0.9, 1.2)
    assert is_larger(0.91, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    rest_slow(
        [
            {"epsilon_declared": 0.6},
            {"delta_declared": 1e-6},
            {"neighbors": "add_remove"},
            {"secret": "membership"},
            {"dataset": "purchases"},
            {"label_column": "bought"},
            {"privacy_unit": "user_id"},
        ],
        always=2,
    ),
)
def test_another_declaration_label_dataset_or_unit_is_not_covered(
    settings: Settings, warehouse: Warehouse, changes: dict[str, Any]
) -> None:
    first = night(0)
    event(settings, warehouse, first)
    know(warehouse, first, 0)
    assert event(settings, warehouse, night(1, **changes)) in {"violated", "still_violated"}


@pytest.mark.slow
def test_an_acknowledgement_of_a_withdrawn_audit_covers_nothing(
    settings: Settings, warehouse: Warehouse
) -> None:
    first = night(0)
    event(settings, warehouse, first)
    know(warehouse, first, 0)
    warehouse.withdraw(first.audit.audit_id, "The wrong lake.")
    assert acknowledgements(warehouse) == ()
    assert event(settings, warehouse, night(1)) == "violated"


@pytest.mark.slow
def test_the_last_acknowledgement_counts(settings: Settings, warehouse: Warehouse) -> None:
    first = night(0)
    event(settings, warehouse, first)
    know(warehouse, first, 0, days=9)
    know(warehouse, first, 1, days=0)
    assert event(settings, warehouse, night(1)) == KNOWN
    assert event(settings, warehouse, night(2)) == "violated"


@pytest.mark.slow
def test_an_alert_says_who_knows_of_it(settings: Settings, warehouse: Warehouse) -> None:
    first = night(0)
    warehouse.commit(first)
    know(warehouse, first, 0)
    for number, bound, words in ((1, 0.9, "user anna acknowledged"), (2, 1.5, "proves 1.50")):
        row = night(number, epsilon_lower=bound).audit
        alert = _of_incident(alert_of(row, settings), row, settings)
        assert alert is not None
        assert words in alert.reason


@pytest.mark.parametrize(
    ("until", "why", "sentence"),
    [
        (-1, "Known.", "cannot be acknowledged until 2026-03-31: give a day from 2026-04-01"),
        (LONGEST + 1, "Known.", r"to 2026-04-29 \(28 days\)"),
        (1, " ", "--why must not be empty"),
    ],
)
def test_it_has_a_reason_and_an_end_within_the_limit(
    warehouse: Warehouse, until: int, why: str, sentence: str
) -> None:
    first = night(0)
    warehouse.commit(first)
    day = START.date() + dt.timedelta(days=until)
    with pytest.raises(TerminalError, match=sentence):
        acknowledge(warehouse, first.audit.audit_id, why=why, until=day, by=None, now=START)
    assert acknowledgements(warehouse) == ()


@pytest.mark.slow
def test_only_a_current_violation_can_be_acknowledged(warehouse: Warehouse) -> None:
    """A bound that another record replaced covers nothing."""
    replaced, fine = night(0), night(1, verdict="consistent")
    for record in (replaced, night(0, reason="Again."), fine):
        warehouse.commit(record)
    for record, sentence in (
        (replaced, "not the current one"),
        (fine, "only a violation can be acknowledged"),
    ):
        with pytest.raises(TerminalError, match=sentence):
            know(warehouse, record, 3)

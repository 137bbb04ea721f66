"""An acknowledged violation notifies nobody, until it ends, is worse, or is another violation."""

import datetime as dt

import pytest

from flows.notify.events import at_commit
from flows.notify.incidents import incidents_before
from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.tiers import rest_slow
from tests.support.warehouse import START, evaluated
from workers.warehouse.acknowledgements import LONGEST, acknowledge, acknowledgements, is_larger
from workers.warehouse.store import Warehouse

VIOLATED = {
    "verdict": "violated",
    "reason_code": "this_night",
    "epsilon_lower": 0.9,
    "dataset": "clicks",
}
FINE = {
    "verdict": "not_refuted",
    "reason_code": None,
    "epsilon_lower": 0.1,
    "epsilon_ceiling": 3.0,
    "sees_from": 0.8,
}
KNOWN = "known"


def night(number, **changes):
    """Return a refuted night that was recorded at noon, that many days after `START`."""
    day = DAY + dt.timedelta(days=number)
    return evaluated("ads", day, hour=24 * number + 12, **VIOLATED | changes)


def told(settings, warehouse, record):
    """Return the event of a refuted night."""
    before = incidents_before(warehouse, [record.audit])[record.audit.audit_id]
    event = at_commit(record.audit, before, settings)
    assert event is not None
    return event


def stage(settings, warehouse, record):
    """Commit a refuted night and return its place in the incident."""
    warehouse.commit([record])
    return str(told(settings, warehouse, record).stage)


def know(warehouse, record, number, *, days=3):
    """Acknowledge a night on a later day, until `days` after that day."""
    now = START + dt.timedelta(days=number, hours=13)
    until = now.date() + dt.timedelta(days=days)
    audit_id = record.audit.audit_id
    acknowledge(warehouse, audit_id, why="In repair.", until=until, by="user anna", now=now)


@pytest.fixture
def first(settings, warehouse):
    """Return the first night of a violation, which began an incident and is known."""
    record = night(0)
    assert stage(settings, warehouse, record) == "begins"
    know(warehouse, record, 0)
    return record


@pytest.mark.usefixtures("first")
@pytest.mark.slow
def test_it_notifies_nobody_until_it_ends_and_then_once(settings, warehouse):
    found = [stage(settings, warehouse, night(at)) for at in range(1, 7)]
    assert found == [KNOWN, KNOWN, KNOWN, "ended", "goes_on", "goes_on"]


def test_years_of_audits_are_not_read_where_nothing_was_acknowledged(warehouse, monkeypatch):
    """Each alert of a violation asks, and so does every `show`."""
    scanned, scan = [], Warehouse.scan

    def watched(self, table):
        scanned.append(table)
        return scan(self, table)

    first = night(0)
    warehouse.commit([first])
    monkeypatch.setattr(Warehouse, "scan", watched)
    assert acknowledgements(warehouse) == ()
    assert scanned == ["audit_notes"]
    know(warehouse, first, 0)
    assert [one.why for one in acknowledgements(warehouse)] == ["In repair."]


@pytest.mark.usefixtures("first")
@pytest.mark.slow
def test_an_incident_that_was_resolved_and_begins_anew_is_known_too(settings, warehouse):
    warehouse.commit([night(1, **FINE)])
    assert stage(settings, warehouse, night(2)) == KNOWN


@pytest.mark.slow
def test_a_larger_bound_notifies_and_is_then_known(settings, warehouse):
    """An owner cannot have a small leak acknowledged and then make it larger."""
    first = night(0)
    stage(settings, warehouse, first)
    know(warehouse, first, 0, days=9)
    bounds = (0.9, 1.2, 1.2, 0.8, 1.21)
    found = [
        stage(settings, warehouse, night(at, epsilon_lower=bound))
        for at, bound in enumerate(bounds, start=1)
    ]
    assert found == [KNOWN, "grows", KNOWN, KNOWN, "grows"]


def test_a_digit_that_no_reader_sees_is_no_larger_bound():
    assert not is_larger(0.904, 0.9)
    assert not is_larger(0.9, 1.2)
    assert is_larger(0.91, 0.9)


@pytest.mark.usefixtures("first")
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
def test_another_declaration_label_dataset_or_unit_is_not_covered(settings, warehouse, changes):
    assert stage(settings, warehouse, night(1, **changes)) in {"begins", "goes_on"}


@pytest.mark.slow
def test_an_acknowledgement_of_a_withdrawn_audit_covers_nothing(settings, warehouse, first):
    warehouse.withdraw(first.audit.audit_id, "The wrong lake.")
    assert acknowledgements(warehouse) == ()
    assert stage(settings, warehouse, night(1)) == "begins"


@pytest.mark.slow
def test_the_last_acknowledgement_counts(settings, warehouse):
    first = night(0)
    stage(settings, warehouse, first)
    know(warehouse, first, 0, days=9)
    know(warehouse, first, 1, days=0)
    assert stage(settings, warehouse, night(1)) == KNOWN
    assert stage(settings, warehouse, night(2)) == "ended"


@pytest.mark.slow
def test_an_event_says_who_knows_of_it(settings, warehouse):
    first = night(0)
    warehouse.commit([first])
    know(warehouse, first, 0)
    for number, bound, words in ((1, 0.9, "user anna acknowledged"), (2, 1.5, "proves 1.50")):
        assert words in told(settings, warehouse, night(number, epsilon_lower=bound)).reason


@pytest.mark.parametrize(
    ("until", "why", "sentence"),
    [
        (-1, "Known.", "cannot be acknowledged until 2026-03-31: give a day from 2026-04-01"),
        (LONGEST + 1, "Known.", r"to 2026-04-29 \(28 days\)"),
        (1, " ", "--why must not be empty"),
    ],
)
def test_it_has_a_reason_and_an_end_within_the_limit(warehouse, until, why, sentence):
    first = night(0)
    warehouse.commit([first])
    day = START.date() + dt.timedelta(days=until)
    with pytest.raises(TerminalError, match=sentence):
        acknowledge(warehouse, first.audit.audit_id, why=why, until=day, by=None, now=START)
    assert acknowledgements(warehouse) == ()


@pytest.mark.slow
def test_only_a_current_violation_can_be_acknowledged(warehouse):
    """A bound that another record replaced covers nothing."""
    replaced, fine = night(0), night(1, **FINE)
    warehouse.commit([replaced, night(0, reason="Again."), fine])
    for record, sentence in (
        (replaced, "not the current one"),
        (fine, "only a violation can be acknowledged"),
    ):
        with pytest.raises(TerminalError, match=sentence):
            know(warehouse, record, 3)

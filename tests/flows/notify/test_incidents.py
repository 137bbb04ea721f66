"""Incidents begin, go on and are resolved once each, whoever would rather end them."""

import datetime as dt

import pytest

import flows.run.auditing
from flows.notify.events import Kind, at_commit, events, nights_of
from flows.notify.incidents import Stage, incident_id, incidents_before
from flows.run.auditing import announce
from privcore.exceptions import TransientError
from tests.support.lake import DAY, EVE
from tests.support.tiers import rest_slow
from tests.support.warehouse import commit_night, evaluated, failed, put_rows
from tests.support.warehouse import night as night_of
from workers.warehouse.model_verdict import REACH

SEEING = {"epsilon_ceiling": 3.0, "sees_from": 0.8, "dataset": "clicks"}
"""A night that would have refuted the declared 0.5 if that were false."""
VIOLATED = {"verdict": "violated", "reason_code": "this_night", "epsilon_lower": 0.9} | SEEING


def night(number, **changes):
    return evaluated("ads", DAY + dt.timedelta(days=number), **SEEING | changes)


def told(settings, warehouse, record):
    """Commit a night, and return the kinds of its claim's events, with their stages."""
    warehouse.commit([record])
    row = record.audit
    first = at_commit(row, incidents_before(warehouse, [row])[row.audit_id], settings)
    found = [*([first] if first else []), *events(nights_of([row], settings), settings)]
    about = [event for event in found if event.incident is not None]
    assert {event.incident for event in about} <= {incident_id(row)}
    return [str(event.stage or event.kind.rsplit(".", 1)[1]) for event in about]


def test_an_incident_begins_once_goes_on_and_is_resolved_once(settings, warehouse):
    nights = [VIOLATED, VIOLATED, {}, {}, VIOLATED]
    found = [told(settings, warehouse, night(at, **one)) for at, one in enumerate(nights)]
    assert found == [["begins"], ["goes_on"], ["resolved"], [], ["begins"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    rest_slow(
        [
            {"verdict": "inconclusive", "reason_code": "proxy_wrong"},
            {"verdict": "inconclusive", "reason_code": "rows_unaccounted"},
            {"verdict": "inconclusive", "reason_code": "few_held_out", "sees_from": 1.1},
            {"verdict": "inconclusive", "reason_code": "declaration_empty"},
        ]
    ),
)
def test_a_night_that_could_not_have_seen_a_leak_resolves_nothing(settings, warehouse, changes):
    """An owner who holds out next to nothing, or spoils the proxy, ends no incident."""
    assert told(settings, warehouse, night(0, **VIOLATED)) == ["begins"]
    assert told(settings, warehouse, night(1, **changes)) == []
    assert told(settings, warehouse, night(2, **VIOLATED)) == ["goes_on"]


@pytest.mark.slow
def test_a_night_without_figures_resolves_nothing(settings, warehouse):
    told(settings, warehouse, night(0, **VIOLATED))
    assert told(settings, warehouse, failed("ads", DAY + dt.timedelta(days=1))) == []
    assert told(settings, warehouse, night(2, **VIOLATED)) == ["goes_on"]


@pytest.mark.slow
def test_another_declaration_model_or_secret_is_an_incident_of_its_own(settings, warehouse):
    first = night(0, **VIOLATED)
    told(settings, warehouse, first)
    for changes in ({"epsilon_declared": 0.6}, {"delta_declared": 1e-6}, {"secret": "membership"}):
        other = night(1, **VIOLATED | changes)
        assert incident_id(other.audit) != incident_id(first.audit)
        (state,) = incidents_before(warehouse, [other.audit]).values()
        assert state.told is None
    assert incident_id(night(1, secret="label").audit) == incident_id(first.audit)  # noqa: S106
    (state,) = incidents_before(warehouse, [night(1).audit]).values()
    assert state.told is not None


@pytest.mark.slow
@pytest.mark.parametrize(("days", "stage"), [(REACH, "goes_on"), (REACH + 1, "begins")])
def test_after_a_month_without_a_decision_the_incident_begins_anew(
    settings, warehouse, days, stage
):
    told(settings, warehouse, night(0, **VIOLATED))
    assert told(settings, warehouse, night(days, **VIOLATED)) == [stage]


@pytest.mark.slow
def test_a_month_without_a_decision_is_no_all_clear(settings, warehouse):
    told(settings, warehouse, night(0, **VIOLATED))
    doubted = {"verdict": "inconclusive", "reason_code": "proxy_wrong"}
    assert [told(settings, warehouse, night(at, **doubted)) for at in (9, REACH, REACH + 1)] == [
        [], [], [],
    ]  # fmt: skip


@pytest.mark.slow
def test_a_rerun_of_the_first_night_sends_the_same_event(settings, warehouse):
    """Otherwise an event that was cut off between commit and delivery would be lost."""
    record = night(0, **VIOLATED)
    assert told(settings, warehouse, record) == ["begins"]
    assert told(settings, warehouse, record) == ["begins"]


@pytest.mark.slow
def test_nights_that_refute_together_begin_an_incident_and_keep_it_open(settings, warehouse):
    """No night of them refutes alone; the evidence of each is e^3 against what is declared."""
    records = [night_of(at, 3.0, hour=24 * at, **SEEING) for at in range(4)]
    assert [told(settings, warehouse, record) for record in records] == [
        [], ["begins"], ["goes_on"], ["goes_on"],
    ]  # fmt: skip
    (last,) = nights_of([records[-1].audit], settings)
    assert (last.verdict, last.verdict_together) == ("not_refuted", "violated")


def test_in_doubt_the_event_is_a_new_one(settings, warehouse, monkeypatch, alerts):
    """One alert too many is better than none."""
    told(settings, warehouse, night(0, **VIOLATED))

    def failing(*_):
        raise TransientError("Storage fails.")

    monkeypatch.setattr(flows.run.auditing, "incidents_before", failing)
    announced = announce(night(1, **VIOLATED), settings, withdrawn=False)
    assert alerts == [announced.event]
    assert alerts[0].stage is Stage.BEGINS


def remarked(settings, warehouse, number, **changes):
    """Commit a night, and return what its event of new remarks names."""
    record = night(number, **changes)
    warehouse.commit([record])
    found = [one.reason for one in events(nights_of([record.audit], settings), settings)]
    return [reason.removeprefix("New since 28 days: ").split(".")[0] for reason in found]


DOUBTFUL = {
    "verdict": "inconclusive",
    "reason_code": "rows_unaccounted",
    "detail": "rows_miscounted",
    "remarks": ("rows_miscounted", "rows_left_out"),
}


@pytest.mark.slow
def test_what_no_night_of_28_days_remarked_on_is_told_once(settings, warehouse):
    """An owner who shows the audit other rows from some night on is alerted of, whatever is said.

    Of a first night the doubts alone are told, and a night without figures knows of none.
    """
    assert remarked(settings, warehouse, 0, remarks=("power_lost",)) == []
    assert remarked(settings, warehouse, 1, **DOUBTFUL) == ["rows miscounted, rows left out"]
    assert remarked(settings, warehouse, 2, **DOUBTFUL) == []
    warehouse.commit([failed("ads", DAY + dt.timedelta(days=3))])
    assert remarked(settings, warehouse, 4, **DOUBTFUL) == []
    assert remarked(settings, warehouse, 5, remarks=("rows_left_out",)) == []
    assert remarked(settings, warehouse, 4 + REACH + 1, **DOUBTFUL) == ["rows miscounted"]
    both = VIOLATED | {"remarks": ("classes_exchanged",)}
    assert remarked(settings, warehouse, 4 + REACH + 2, **both) == []


def test_an_empty_declaration_is_told_once(settings, warehouse):
    """It was told every night."""
    empty = {"verdict": "inconclusive", "reason_code": "over_policy", "epsilon_declared": 9.0}
    assert remarked(settings, warehouse, 0, **empty) == ["over policy"]
    assert remarked(settings, warehouse, 1, **empty) == []


def test_a_first_night_tells_its_doubts_alone(settings, warehouse):
    first = DOUBTFUL | {"remarks": ("power_lost", "rows_miscounted")}
    assert remarked(settings, warehouse, 0, **first) == ["rows miscounted"]


@pytest.mark.parametrize(("exploratory", "heard"), [(False, False), (True, True)])
def test_a_doubt_of_one_runs_plan_is_new_on_the_night(settings, warehouse, exploratory, heard):
    """Somebody had it before, on a day that no night audited, and nobody heard of it."""
    before = night(1, **DOUBTFUL | {"exploratory": exploratory})
    put_rows(warehouse, [night(0), before])
    assert bool(remarked(settings, warehouse, 2, **DOUBTFUL)) is heard


@pytest.mark.parametrize(("proved", "heard"), [(0.9, True), (4.0, False)])
def test_a_doubt_that_lowers_a_violation_to_an_update_is_told(settings, warehouse, proved, heard):
    """It proved less than twice as much, so that nobody heard, neither of it nor of the doubt."""
    put_rows(warehouse, [night(0, **VIOLATED)])
    changes = VIOLATED | {"remarks": ("rows_miscounted",), "epsilon_lower": proved}
    assert bool(remarked(settings, warehouse, 1, **changes)) is heard


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "stages"),
    [
        ((0.6, 1.5), ["begins", "goes_on"]),
        ((0.6, 1.7), ["begins", "grows"]),
        ((0.51, 1.5, 2.9, 5.8), ["begins", "goes_on", "grows", "goes_on"]),
    ],
)
def test_an_incident_that_grows_notifies_again(warehouse, settings, bounds, stages):
    """A small violation opened an incident in which nobody heard of a large one, nor of steps."""
    records = [night(at, **VIOLATED | {"epsilon_lower": one}) for at, one in enumerate(bounds)]
    assert [told(settings, warehouse, one)[0] for one in records] == stages


def test_growth_is_said_with_both_bounds(warehouse, settings):
    commit_night(warehouse, "violated", day=EVE, reason_code="this_night", epsilon_lower=0.6)
    grown = evaluated("ads", DAY, **VIOLATED | {"epsilon_lower": 1.7, "dataset": None}).audit
    event = at_commit(grown, incidents_before(warehouse, [grown])[grown.audit_id], settings)
    assert event is not None
    assert event.kind is Kind.VIOLATED
    assert "This night proves 1.70, more than twice the 0.60" in event.reason


@pytest.mark.parametrize(("chosen", "stage"), [(False, Stage.GOES_ON), (True, Stage.GROWS)])
def test_a_bound_by_a_plan_that_somebody_chose_hushes_no_night(warehouse, chosen, stage):
    """The bound of which people last heard was that of another seed, so that none grew beyond."""
    loud = VIOLATED | {"epsilon_lower": 9.0, "exploratory": chosen}
    put_rows(warehouse, [night(0, **VIOLATED), night(1, **loud)])
    tonight = night(2, **VIOLATED | {"epsilon_lower": 4.0}).audit
    incident = incidents_before(warehouse, [tonight])[tonight.audit_id]
    assert incident.place(tonight, 4.0)[0] is stage

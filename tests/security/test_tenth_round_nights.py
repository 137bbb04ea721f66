"""The tenth round of new attacks: an owner, and a writer of settings, over many nights."""

import datetime as dt
from typing import Any

import polars as pl
import pytest

from flows.notify.alerts import Event, alert_of
from flows.notify.incidents import Stage, incidents_before
from flows.run.conclusion import _beside
from flows.settings import Settings
from tests.security.test_ninth_round_owner_nights import night
from tests.support.lake import DAY, PLAN
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.input_changes import input_changes
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together

A_DAY = dt.timedelta(days=1)
SEEING = {"epsilon_ceiling": 8.0, "epsilon_detectable": 0.2, "epsilon_lower": 0.0}
REFUTED = SEEING | {"verdict": "violated", "epsilon_lower": 1.0}
OF_LABELS = {"dataset": "clicks", "label_column": "late"}
RECURRING = PLAN.model_copy(update={"labels_recur": True}).model_dump_json()


def events(row: AuditRow, warehouse: Warehouse, settings: Settings) -> list[Event]:
    """Return the alerts beside a night's own."""
    return [one.event for one in _beside([row], warehouse, settings, epsilon_windows)]


@pytest.mark.parametrize(
    ("changes", "resolved"),
    rest_slow(
        [
            ({}, True),
            ({"dataset": "other"}, False),
            ({"dataset": None, "label_column": None}, True),
            ({"label_column": "other"}, False),
            ({"privacy_unit": "user"}, False),
            ({"exploratory": True}, False),
            ({"plan": RECURRING}, False),
        ]
    ),
)
def test_a_night_of_something_else_resolves_no_incident(
    warehouse: Warehouse, settings: Settings, changes: dict[str, Any], resolved: bool
) -> None:
    """The declaration was the same, and an honest dataset, persons or another plan ended it."""
    given = SEEING | OF_LABELS | changes
    put_rows(warehouse, [night(0, **REFUTED | OF_LABELS)])
    honest = night(1, hour=24, **given)
    put_rows(warehouse, [honest])
    assert (Event.RESOLVED in events(honest.audit, warehouse, settings)) is resolved


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


@pytest.mark.parametrize(("chosen", "stage"), [(False, Stage.GOES_ON), (True, Stage.GROWS)])
def test_a_bound_by_a_plan_that_somebody_chose_hushes_no_night(
    warehouse: Warehouse, chosen: bool, stage: Stage
) -> None:
    """The bound of which people last heard was that of another seed, so that none grew beyond."""
    loud = {"epsilon_lower": 9.0, "exploratory": chosen}
    put_rows(warehouse, [night(0, **REFUTED), night(1, hour=24, **REFUTED | loud)])
    tonight = night(2, hour=48, **REFUTED | {"epsilon_lower": 4.0})
    incident = incidents_before(warehouse, [tonight.audit])[tonight.audit.audit_id]
    assert incident.stage(tonight.audit, 4.0) is stage


def test_a_file_that_was_audited_long_ago_is_known(warehouse: Warehouse) -> None:
    """After 92 days a file could be served again as the day's own."""
    again = night(200, hour=4800)
    put_rows(warehouse, [night(0), again])
    tonight = warehouse.scan("audits").collect().filter(pl.col("day") == again.audit.day)
    found = input_changes(warehouse, tonight)
    assert f"is the file that was audited for {DAY}" in found[again.audit.audit_id]


def test_a_large_declaration_for_the_own_day_alone_exceeds_the_total(warehouse: Warehouse) -> None:
    """Only the day of labels that was read most often was looked at, of small declarations."""
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    last = DAY + 6 * A_DAY
    small = [
        evaluated(model, day, epsilon_declared=0.1, trained_since=day - 6 * A_DAY, **given)
        for model in ("one", "other")
        for day in (DAY + ahead * A_DAY for ahead in range(7))
    ]
    put_rows(warehouse, [*small, evaluated("large", last, epsilon_declared=50.0, **given)])
    found = {one.day: one.exceeds(8.0) for one in together(warehouse, day=last)}
    assert found == {DAY: False, last: True}


DOUBTFUL = SEEING | {"verdict": "doubtful", "remarks": ("rows_miscounted",)}


@pytest.mark.parametrize(("exploratory", "told"), [(False, False), (True, True)])
def test_a_doubt_of_one_runs_plan_is_new_on_the_night(
    warehouse: Warehouse, settings: Settings, exploratory: bool, told: bool
) -> None:
    """Somebody had it before, on a day that no night audited, and nobody heard of it."""
    before = night(1, hour=24, **DOUBTFUL | {"exploratory": exploratory})
    put_rows(warehouse, [night(0, **SEEING), before])
    tonight = night(2, hour=48, **DOUBTFUL)
    put_rows(warehouse, [tonight])
    assert (Event.REMARKED in events(tonight.audit, warehouse, settings)) is told


@pytest.mark.parametrize(("proved", "told"), [(0.9, True), (4.0, False)])
def test_a_doubt_that_lowers_a_violation_to_an_update_is_told(
    warehouse: Warehouse, settings: Settings, proved: float, told: bool
) -> None:
    """It proved less than twice as much, so that nobody heard, neither of it nor of the doubt."""
    put_rows(warehouse, [night(0, **REFUTED)])
    remarks = {"remarks": ("rows_miscounted",), "epsilon_lower": proved}
    tonight = night(1, hour=24, **REFUTED | remarks)
    put_rows(warehouse, [tonight])
    assert (Event.REMARKED in events(tonight.audit, warehouse, settings)) is told

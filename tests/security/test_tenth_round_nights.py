"""The tenth round of new attacks: an owner, and a writer of settings, over many nights."""

import datetime as dt
import json
import os
import pathlib
from typing import Any

import polars as pl
import pytest

from flows.notify.alerts import Event, alert_of
from flows.notify.incidents import Stage, incidents_before
from flows.run.conclusion import _beside
from flows.settings import Settings
from tests.security.test_ninth_round_owner_nights import night
from tests.support.lake import DAY, PLAN, label_path, label_rows, put_labels
from tests.support.tiers import rest_slow
from tests.support.warehouse import START, evaluated, put_rows
from workers.audit.rows_again import RowsAgain
from workers.lake.layout import Lake
from workers.warehouse.input_changes import input_changes
from workers.warehouse.late_labels import late_labels
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow
from workers.warehouse.settings_changes import settings_change
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together
from workers.warehouse.unlisted import unlisted_models

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


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        ({}, REFUTED, False),
        ({"significance": 1e-6}, REFUTED, True),
        ({"significance": 1e-6}, SEEING, True),
        ({"slices": ("city",)}, SEEING, False),
    ],
)
def test_a_plan_that_came_before_the_nights_is_told(
    warehouse: Warehouse,
    settings: Settings,
    first: dict[str, Any],
    then: dict[str, Any],
    told: bool,
) -> None:
    """By settings of their own an owner asked first, and the night's refutation did not count."""
    plan = PLAN.model_copy(update=first).model_dump_json()
    put_rows(warehouse, [night(0, hour=1, **SEEING | {"plan": plan})])
    asked = night(0, hour=2, **then)
    put_rows(warehouse, [asked])
    found = [one.reason for one in _beside([asked.audit], warehouse, settings, epsilon_windows)]
    assert any("by another plan (significance 1e-06) came first" in one for one in found) is told


def settings_of(**changes: Any) -> dict[str, Any]:
    """Return a night's settings as its record has them."""
    return {
        "day": "2026-04-01",
        "plan": json.dumps({"power": 1, "repetitions": 4, "significance": 0.05}),
        "notify": '["anna"]',
        "deadline": "09:00:00 UTC",
        "source": None,
        "decoy_commitment": None,
        "output_correction": None,
    } | changes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plan": '{"power": 2, "repetitions": 5, "significance": 1e-06}'}, "plan.significance"),
        ({"output_correction": '{"floor": 0.4}'}, "output_correction.floor"),
        ({"deadline": "23:00:00 UTC"}, "deadline"),
    ],
)
def test_many_names_hide_no_change_of_the_plan(change: dict[str, Any], said: str) -> None:
    """Five changes were named, in the order of letters: notify comes before plan."""
    crowd = {
        "notify": json.dumps([f"team{number}" for number in range(9)]),
        "source": json.dumps({"labels": {"columns": {f"x{number}": "y" for number in range(9)}}}),
    }
    told = settings_change(settings_of(), settings_of(**crowd | change))
    assert told is not None
    assert said in told
    assert 'notify."anna" was true and is nothing' in told
    assert "so did 8 others" in told


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


def test_a_name_that_began_beside_the_old_one_is_its_successor(warehouse: Warehouse) -> None:
    """Listed under both names for some nights, the model left its standing behind unsaid."""
    rows = [evaluated("old", DAY + ahead * A_DAY, dataset="x") for ahead in range(20)]
    rows += [evaluated("new", DAY + ahead * A_DAY, dataset="x") for ahead in range(15, 22)]
    rows += [evaluated("older", DAY + ahead * A_DAY, dataset="x") for ahead in range(22)]
    put_rows(warehouse, rows)
    listed = [("new", "label"), ("older", "label")]
    (missed,) = unlisted_models(warehouse, listed, DAY + 21 * A_DAY)
    assert missed.successors == ("new",)


@pytest.mark.parametrize(("ahead", "told"), [(8, True), (30, True), (32, False)])
def test_labels_that_come_eight_days_late_are_told(
    warehouse: Warehouse, tmp_path: pathlib.Path, ahead: int, told: bool
) -> None:
    """Of a training that reads a month, seven days were looked at."""
    lake, since = Lake(str(tmp_path / "lake")), DAY
    nights = [night(at, hour=24 * at, trained_since=since, dataset="flights") for at in range(40)]
    put_rows(warehouse, nights[: ahead + 1])
    put_labels(lake, DAY, label_rows(20, seed=1))
    written = (START + dt.timedelta(hours=24 * ahead - 2)).timestamp()
    os.utime(label_path(lake, "flights", DAY), (written, written))
    found = list(late_labels([nights[ahead].audit], lake, warehouse, RowsAgain(lake).same))
    assert bool(found) is told


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

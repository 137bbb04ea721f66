"""The eighth round of new attacks: an owner over many nights and commands."""

import datetime as dt
import pathlib
import types
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flows.commands.stored import not_the_days
from flows.notify.alerts import Event, alert_of, inputs_alert
from flows.run.auditing import _of_incident
from flows.run.backfill import plan_backfill
from flows.run.overdue import overdue_models
from flows.run.withdrawing import delete_audits, withdraw_audit
from flows.settings import Settings, load_settings
from privcore.attacks import fidelity
from tests.support.lake import DAY, EVE, PLAN, write_settings
from tests.support.tiers import rest_slow
from tests.support.warehouse import INPUTS, evaluated
from workers.audit.remarks import _same_answers
from workers.versions import METHOD_VERSION
from workers.warehouse.declaration_changes import declaration_change
from workers.warehouse.store import Warehouse
from workers.warehouse.together import together


def put(warehouse: Warehouse, verdict: str, *, day: dt.date = DAY, **changes: Any) -> str:
    """Commit a night of `ads`, and return its id."""
    record = evaluated("ads", day, **INPUTS | {"verdict": verdict} | changes)
    warehouse.commit(record)
    return record.audit.audit_id


@pytest.mark.parametrize(
    "changes",
    rest_slow(
        [
            {"labels_digest": "x" * 64, "plan": '{"slices": ["city"]}'},
            {"labels_digest": "x" * 64},
            {"target_sha256": "x" * 64},
            {"target_manifest_sha256": "x" * 64, "verdict": "undeclared"},
        ]
    ),
)
def test_later_inputs_take_no_refutation_back(
    warehouse: Warehouse, changes: dict[str, Any]
) -> None:
    """Three violated days that were audited again made a violated standing consistent."""
    first = put(warehouse, "violated")
    put(warehouse, **{"verdict": "consistent"} | changes)
    assert warehouse.current()["audit_id"].to_list() == [first]


def test_an_exploratory_refutation_stays_no_nights_verdict(warehouse: Warehouse) -> None:
    put(warehouse, "violated", exploratory=True, labels_digest="x" * 64)
    own = put(warehouse, "consistent")
    assert warehouse.current()["audit_id"].to_list() == [own]


def test_whoever_takes_an_audit_back_is_told_of(
    warehouse: Warehouse,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    alerts: list[Any],
) -> None:
    """Only the first page said so, and an operator's act turned a standing."""
    monkeypatch.setattr("pwd.getpwuid", lambda _: types.SimpleNamespace(pw_name="anna"))
    first = put(warehouse, "violated")
    assert withdraw_audit(settings, first, why="It proved 0.93.") == ()
    (alert,) = alerts
    assert (alert.event, alert.model, alert.day) == (Event.WITHDRAWN, "ads", DAY)
    assert (
        alert.reason
        == f"user anna took back the audit {first[:8]}, which was violated: It proved 0.93."
    )


def test_refutations_that_are_deleted_are_told_of(
    warehouse: Warehouse, settings: Settings, alerts: list[Any]
) -> None:
    """Deleting the days that accuse turned a standing, and nobody heard of it."""
    put(warehouse, "violated", day=EVE)
    deleted, undelivered = delete_audits(settings, DAY)
    assert (deleted.audits, undelivered) == (1, ())
    (alert,) = alerts
    assert (alert.event, alert.model, alert.notify) == (Event.WITHDRAWN, "ads", ())
    assert "of which 1 refute what ads declared" in alert.reason


def test_two_changes_of_one_night_are_two_alerts(settings: Settings) -> None:
    """A receiver drops an alert whose id it knows: one change hid the other."""
    row = evaluated("ads", DAY).audit
    told = ["A manifest changed.", "Labels came late.", "A manifest changed."]
    assert len({inputs_alert(row, one, settings).id for one in told}) == 2


def test_a_day_lacks_what_was_withdrawn_and_each_secret_that_is_asked_for(
    warehouse: Warehouse, tmp_path: pathlib.Path
) -> None:
    """Neither was missed, and a backfill left the withdrawn day out."""
    path = write_settings(tmp_path, ["ads"])
    path.write_text(path.read_text("utf-8").replace('"ads"', '"ads"\nmembership = true'), "utf-8")
    settings = load_settings(path)
    late = settings.deadline_of("ads", DAY)
    of = {one.secret_name: one.model_dump_json() for one in settings.plans_of("ads")}
    ids = []
    for secret, plan in of.items():
        assert overdue_models(settings, DAY, now=late) == ("ads",)
        changes = {"secret": secret, "plan": plan, "method_version": METHOD_VERSION}
        ids.append(put(warehouse, "violated", **changes))
    assert len(ids) == 2
    assert overdue_models(settings, DAY, now=late) == ()
    assert plan_backfill(settings, DAY, DAY) == []
    warehouse.withdraw(ids[0], "Damaged labels.")
    assert overdue_models(settings, DAY, now=late) == ("ads",)
    assert [job.day for job in plan_backfill(settings, DAY, DAY)] == [DAY]


def test_a_class_that_comes_or_goes_is_told() -> None:
    """Windows hold nights of as many classes: one that no row has began them anew, unsaid."""
    declared = ("epsilon_declared", "delta_declared", "neighbors", "mechanism")
    night = dict.fromkeys(declared) | {"day": EVE, "classes": 2}
    told = declaration_change(night, night | {"day": DAY, "classes": 3})
    assert told is not None
    assert told.startswith("The label had 2 classes until 2026-03-01, and has 3 on 2026-03-02")


def test_a_unit_of_its_own_takes_a_model_out_of_no_total(warehouse: Warehouse) -> None:
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    plan = {"plan": PLAN.model_copy(update={"privacy_unit": "who"}).model_dump_json()}
    for model, unit in (("ads", {}), ("loud", plan | {"privacy_unit": "who"})):
        changes = given | unit | {"epsilon_declared": 50.0 if unit else 0.5}
        warehouse.commit(evaluated(model, DAY, **changes))
    found = {one.unit: one for one in together(warehouse, day=DAY)}
    assert {unit: one.models for unit, one in found.items()} == {
        None: ("ads", "loud"),
        "who": ("loud",),
    }
    assert found[None].exceeds(8.0)


@pytest.mark.slow
def test_an_audit_that_is_not_the_days_says_so(warehouse: Warehouse) -> None:
    """`explain` and `verify` of the kinder one read like the night's verdict."""
    first = put(warehouse, "violated")
    kinder = put(warehouse, "consistent", labels_digest="x" * 64)
    asked = put(warehouse, "consistent", day=EVE, exploratory=True)
    assert not_the_days(warehouse, first) == ""
    counts = f"Of ads on {DAY} another audit counts, and not this one: {first[:8]}."
    assert not_the_days(warehouse, kinder) == counts
    assert not_the_days(warehouse, asked).endswith("this one is exploratory.")
    warehouse.withdraw(first, "Damaged labels.")
    assert not_the_days(warehouse, first) == "This audit was withdrawn: Damaged labels."
    assert not_the_days(warehouse, kinder) == ""


@pytest.mark.slow
def test_an_incident_that_grows_notifies_again(warehouse: Warehouse, settings: Settings) -> None:
    """A small violation opened an incident in which nobody heard of a large one."""
    put(warehouse, "violated", day=EVE, epsilon_lower=0.6)
    for proved, event, said in (
        (1.5, Event.STILL_VIOLATED, False),
        (1.7, Event.VIOLATED, True),
    ):
        row = evaluated("ads", DAY, verdict="violated", epsilon_lower=proved, epsilon_ceiling=5.0)
        alert = _of_incident(alert_of(row.audit, settings), row.audit, settings)
        assert alert is not None
        assert alert.event is event
        assert ("more than twice the 0.60" in alert.reason) is said


def test_a_target_that_answers_as_the_earlier_model_does_is_told() -> None:
    """The earlier file with other bytes of metadata: 0.00, unsaid where it counts no rows."""
    random = np.random.default_rng(0)
    chances, labels = random.dirichlet([1.0, 1.0], size=50), random.integers(0, 2, 50)
    for other, told in ((chances, True), (chances[:, ::-1], False)):
        result: Any = SimpleNamespace(fidelity=fidelity(chances, other, labels))
        evidence: Any = SimpleNamespace(epsilon_lower=0.0)
        assert ("compares a model with itself" in _same_answers(result, evidence)) is told

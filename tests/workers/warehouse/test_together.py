"""Promises of all models on the same labels together, from what is stored."""

import datetime as dt
import math
from typing import Any

import pytest

from tests.support.warehouse import evaluated, failed
from workers.warehouse.store import Warehouse
from workers.warehouse.together import Together, together

DAY = dt.date(2026, 4, 1)


def put(warehouse: Warehouse, model: str, **changes: Any) -> None:
    given: dict[str, Any] = {
        "dataset": "clicks", "neighbors": "replace", "epsilon_declared": 1.0,
        "delta_declared": 0.0, "declared_by": "an owner",
    } | changes  # fmt: skip
    warehouse.commit([evaluated(model, given.pop("day", DAY), **given)])


def only(found: list[Together]) -> Together:
    (one,) = found
    return one


@pytest.mark.slow
def test_models_within_their_declarations_exceed_the_total(warehouse):
    for model in ("a", "b", "c"):
        put(warehouse, model)
    put(warehouse, "elsewhere", dataset="views")
    put(warehouse, "earlier", day=DAY - dt.timedelta(days=1))
    warehouse.commit([failed("late", DAY)])
    views, clicks = sorted(together(warehouse, DAY), key=lambda one: len(one.models))
    assert (views.models, views.epsilon_composed) == (("elsewhere",), 1.0)
    assert (clicks.models, clicks.epsilon_composed) == (("a", "b", "c"), 3.0)
    assert (clicks.exceeds(2.5), clicks.exceeds(3.0)) == (True, False)
    assert clicks.sentence(2.5).endswith("The total of 2.5 is exceeded.")
    assert "compose to 3." in clicks.sentence()


def test_who_promises_nothing_leaves_no_promise(warehouse):
    put(warehouse, "a")
    put(warehouse, "by-policy", declared_by="policy")
    put(warehouse, "none", epsilon_declared=None, verdict="undeclared")
    put(warehouse, "void", verdict="inconclusive", reason_code="declaration_empty")
    found = only(together(warehouse, DAY))
    assert found.undeclared == ("by-policy", "none", "void")
    assert found.epsilon_composed == math.inf
    assert "Together they promise nothing" in found.sentence()
    assert found.exceeds(100.0)


def test_relations_and_deltas_are_composed_under_replacement(warehouse):
    put(warehouse, "a", neighbors="add_remove", epsilon_declared=0.5)
    put(warehouse, "b", delta_declared=1e-6)
    found = only(together(warehouse, DAY, delta=0.0))
    assert found.epsilon_composed == math.inf  # a delta of 1e-6 is never 0
    assert "promise nothing together at delta 0" in found.sentence()
    found = only(together(warehouse, DAY, delta=1e-6))
    assert found.epsilon_composed == pytest.approx(2.0, abs=1e-3)


def test_a_unit_of_its_own_takes_a_model_out_of_no_total(warehouse):
    """What a model promises for persons, it promises for rows; units have names of their own."""
    put(warehouse, "rows")
    for unit in ("who", "user"):
        put(warehouse, unit, privacy_unit=unit)
    found = only(together(warehouse, DAY))
    assert (found.models, found.epsilon_composed) == (("rows", "user", "who"), 3.0)


def later(days: int) -> dt.date:
    return DAY + dt.timedelta(days=days)


def test_a_model_that_is_trained_again_on_the_same_labels_promises_anew(warehouse):
    put(warehouse, "once")
    put(warehouse, "weekly", day=later(1), trained_since=later(-1))
    put(warehouse, "weekly", day=later(2), trained_since=DAY)
    for day, trainings in ((DAY, 3), (later(1), 3), (later(2), 3)):
        found = only(together(warehouse, day))
        assert (found.day, found.trainings, found.epsilon_composed) == (DAY, trainings, 3.0)
    assert found.models == ("once", "weekly")
    assert f"Training read the labels of {DAY} 3 times, for once, weekly." in found.sentence()
    assert together(warehouse, later(3)) == []


def test_a_day_that_is_audited_afterwards_is_in_the_total_of_its_labels(warehouse):
    """The next day's model had read its labels again, and no night's total had both."""
    put(warehouse, "loud", day=later(1), trained_since=DAY)
    put(warehouse, "days", day=later(2), label_days=(DAY, later(2)))
    put(warehouse, "ads", hour=90)
    found = only(together(warehouse, DAY))
    assert (found.day, found.models) == (DAY, ("ads", "days", "loud"))


def test_a_large_declaration_for_the_own_day_alone_exceeds_the_total(warehouse):
    """Only the day of labels that was read most often was looked at, of small declarations."""
    for model in ("one", "other"):
        for day in map(later, range(7)):
            since = day - dt.timedelta(days=6)
            put(warehouse, model, day=day, epsilon_declared=0.1, trained_since=since)
    last = only(together(warehouse, later(6)))
    assert (last.day, last.trainings) == (DAY, 14)
    put(warehouse, "large", day=later(6), epsilon_declared=50.0)
    found = only(together(warehouse, later(6)))
    assert (found.day, found.trainings, found.exceeds(8.0)) == (later(6), 3, True)

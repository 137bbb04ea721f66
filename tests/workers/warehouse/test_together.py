"""Promises of all models on the same labels together, from what is stored."""

import datetime as dt
import math
import pathlib
from typing import Any

import pytest

from tests.support.lake import DAY as MARCH
from tests.support.lake import PLAN
from tests.support.warehouse import evaluated, failed, put_rows
from workers.warehouse.store import Warehouse
from workers.warehouse.together import Together, together, together_table

DAY = dt.date(2026, 4, 1)


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def put(warehouse: Warehouse, model: str, **changes: Any) -> None:
    given: dict[str, Any] = {
        "dataset": "clicks", "neighbors": "replace", "epsilon_declared": 1.0,
        "delta_declared": 0.0, "declared_by": "an owner",
    } | changes  # fmt: skip
    warehouse.commit(evaluated(model, given.pop("day", DAY), **given))


def only(found: list[Together]) -> Together:
    (one,) = found
    return one


@pytest.mark.slow
def test_models_within_their_declarations_exceed_the_total(warehouse: Warehouse) -> None:
    for model in ("a", "b", "c"):
        put(warehouse, model)
    put(warehouse, "elsewhere", dataset="views")
    put(warehouse, "earlier", day=DAY - dt.timedelta(days=1))
    warehouse.commit(failed("late", DAY))
    views, clicks = sorted(together(warehouse, day=DAY), key=lambda one: len(one.models))
    assert (views.models, views.epsilon_composed) == (("elsewhere",), 1.0)
    assert (clicks.models, clicks.epsilon_composed) == (("a", "b", "c"), 3.0)
    assert (clicks.exceeds(2.5), clicks.exceeds(3.0)) == (True, False)
    assert clicks.sentence(2.5).endswith("The total of 2.5 is exceeded.")
    assert "compose to 3. The largest, under replacement: a (1), b (1), c (1)." in clicks.sentence()
    assert "The largest" not in views.sentence()
    table = together_table([clicks], 2.5)
    assert table.row(0, named=True)["exceeded"]
    assert together_table([], None).is_empty()
    assert len(together(warehouse)) == 3


def test_who_promises_nothing_leaves_no_promise(warehouse: Warehouse) -> None:
    put(warehouse, "a")
    put(warehouse, "by-policy", declared_by="policy")
    put(warehouse, "none", epsilon_declared=None, verdict="undeclared")
    put(warehouse, "void", verdict="vacuous")
    found = only(together(warehouse))
    assert found.undeclared == ("by-policy", "none", "void")
    assert found.epsilon_composed == math.inf
    assert "Together they promise nothing" in found.sentence()
    assert found.exceeds(100.0)


def test_relations_and_deltas_are_composed_under_replacement(warehouse: Warehouse) -> None:
    put(warehouse, "a", neighbors="add_remove", epsilon_declared=0.5)
    put(warehouse, "b", delta_declared=1e-6)
    found = only(together(warehouse, delta=0.0))
    assert found.epsilon_composed == math.inf  # a delta of 1e-6 is never 0
    assert "promise nothing together at delta 0" in found.sentence()
    found = only(together(warehouse, delta=1e-6))
    assert found.epsilon_composed == pytest.approx(2.0, abs=1e-3)


def test_rows_and_persons_are_told_apart(warehouse: Warehouse) -> None:
    put(warehouse, "a")
    put(warehouse, "b", privacy_unit="user")
    assert {one.unit for one in together(warehouse)} == {None, "user"}


def later(days: int) -> dt.date:
    return DAY + dt.timedelta(days=days)


def test_a_model_that_is_trained_again_on_the_same_labels_promises_anew(
    warehouse: Warehouse,
) -> None:
    put(warehouse, "once")
    put(warehouse, "weekly", day=later(1), trained_since=later(-1))
    put(warehouse, "weekly", day=later(2), trained_since=DAY)
    found = {one.day: one for one in together(warehouse)}
    assert {day: (one.trainings, one.epsilon_composed) for day, one in found.items()} == {
        later(-1): (1, 1.0), DAY: (3, 3.0), later(1): (2, 2.0), later(2): (1, 1.0),
    }  # fmt: skip
    assert found[DAY].models == ("once", "weekly")
    assert f"Training read the labels of {DAY} 3 times, for once, weekly." in found[DAY].sentence()


@pytest.mark.slow
def test_of_a_night_the_labels_are_named_that_were_read_most_often(warehouse: Warehouse) -> None:
    put(warehouse, "once")
    for days in (1, 2):
        put(warehouse, "weekly", day=later(days), trained_since=DAY)
    put(warehouse, "tomorrow", day=later(3), trained_since=DAY)
    for day in (DAY, later(2)):  # of a day that is audited afterwards, later nights count, too
        night = only(together(warehouse, day=day))
        assert (night.day, night.trainings, night.epsilon_composed) == (DAY, 4, 4.0)


def test_a_unit_of_its_own_takes_a_model_out_of_no_total(
    tmp_path: pathlib.Path,
) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    plan = {"plan": PLAN.model_copy(update={"privacy_unit": "who"}).model_dump_json()}
    for model, unit in (("ads", {}), ("loud", plan | {"privacy_unit": "who"})):
        changes = given | unit | {"epsilon_declared": 50.0 if unit else 0.5}
        warehouse.commit(evaluated(model, MARCH, **changes))
    found = {one.unit: one for one in together(warehouse, day=MARCH)}
    assert {unit: one.models for unit, one in found.items()} == {
        None: ("ads", "loud"),
        "who": ("loud",),
    }
    assert found[None].exceeds(8.0)


def test_units_of_other_names_take_no_model_out_of_the_total_of_rows(
    tmp_path: pathlib.Path,
) -> None:
    """Where no audit was of rows, each column of persons had a total of its own."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    rows = [
        evaluated(unit, MARCH, privacy_unit=unit, epsilon_declared=6.0, **given)
        for unit in ("who", "user")
    ]
    put_rows(warehouse, rows)
    found = {one.unit: one for one in together(warehouse, day=MARCH)}
    assert set(found) == {None, "who", "user"}
    assert found[None].models == ("user", "who")
    assert found[None].epsilon_composed == pytest.approx(12.0)


def test_a_day_that_is_audited_afterwards_is_in_the_total_of_its_labels(
    tmp_path: pathlib.Path,
) -> None:
    """The next day's model had read its labels again, and no night's total had both."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    given = {"dataset": "clicks", "neighbors": "replace", "declared_by": "anna"}
    first = evaluated("loud", MARCH + dt.timedelta(days=1), trained_since=MARCH, **given)
    put_rows(warehouse, [first, evaluated("ads", MARCH, hour=90, **given)])
    (found,) = together(warehouse, day=MARCH)
    assert (found.day, found.models) == (MARCH, ("ads", "loud"))


A_DAY = dt.timedelta(days=1)


def test_a_large_declaration_for_the_own_day_alone_exceeds_the_total(
    tmp_path: pathlib.Path,
) -> None:
    """Only the day of labels that was read most often was looked at, of small declarations."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    given = {
        "dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0, "declared_by": "anna"
    }  # fmt: skip
    last = MARCH + 6 * A_DAY
    small = [
        evaluated(model, day, epsilon_declared=0.1, trained_since=day - 6 * A_DAY, **given)
        for model in ("one", "other")
        for day in (MARCH + ahead * A_DAY for ahead in range(7))
    ]
    put_rows(warehouse, [*small, evaluated("large", last, epsilon_declared=50.0, **given)])
    found = {one.day: one.exceeds(8.0) for one in together(warehouse, day=last)}
    assert found == {MARCH: False, last: True}

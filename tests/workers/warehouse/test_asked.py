"""Every audit that was asked for is told, and asking again turns no verdict."""

import datetime as dt
import json
import pathlib
from typing import Any

import pytest

from tests.support.lake import PLAN
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, failed
from workers.warehouse.asked import asked_again, every_audit
from workers.warehouse.schema import AuditRecord
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 1)
INPUTS = {"labels_digest": "l" * 64, "target_sha256": "t" * 64, "proxy_sha256": "p" * 64}


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def asked(verdict: str, *, seed: int = 0, **changes: Any) -> AuditRecord:
    plan = PLAN.model_copy(update={"seed": seed}).model_dump_json()
    given = INPUTS | {"verdict": verdict, "plan": plan, "seed": seed} | changes
    return evaluated("ads", DAY, **given)


def verdict_of(warehouse: Warehouse) -> str:
    """The night's verdict, by both ways to read it."""
    current = warehouse.current()["verdict"].to_list()
    assert query(warehouse, "select verdict from latest_audits")["verdict"].to_list() == current
    return str(current[0])


@pytest.mark.slow
def test_asking_again_with_another_seed_or_plan_turns_no_verdict(warehouse: Warehouse) -> None:
    for seed, record in enumerate(["violated", "consistent", "consistent"]):
        warehouse.commit(asked(record, seed=seed))
        assert verdict_of(warehouse) == "violated"
    warehouse.commit(asked("consistent", seed=1))  # a confirmation
    assert verdict_of(warehouse) == "violated"


@pytest.mark.slow
def test_what_was_audited_once_can_be_left_out(warehouse: Warehouse) -> None:
    assert every_audit(warehouse, repeated=True).height == 0
    warehouse.commit(evaluated("once", DAY))
    assert every_audit(warehouse, repeated=True).height == 0
    for seed in range(3):
        warehouse.commit(asked("consistent", seed=seed))
    warehouse.commit(evaluated("ads", DAY + dt.timedelta(days=1)))
    whole = every_audit(warehouse)
    assert whole.height == 5
    several = whole.filter(model="ads", day=DAY)
    assert every_audit(warehouse, repeated=True).equals(several)


@pytest.mark.slow
def test_an_exploratory_audit_counts_only_where_there_is_no_other(warehouse: Warehouse) -> None:
    warehouse.commit(asked("consistent", seed=7, exploratory=True))
    assert verdict_of(warehouse) == "consistent"
    warehouse.commit(asked("violated", exploratory=False))
    assert verdict_of(warehouse) == "violated"
    warehouse.commit(asked("consistent", seed=8, exploratory=True, labels_digest="m" * 64))
    assert verdict_of(warehouse) == "violated"


def test_an_exploratory_audit_acquits_nobody_whose_own_could_not_be_evaluated(
    warehouse: Warehouse,
) -> None:
    warehouse.commit(asked("not_evaluable", status="not_evaluable", exploratory=False))
    warehouse.commit(asked("consistent", seed=8, exploratory=True))
    assert verdict_of(warehouse) == "not_evaluable"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", rest_slow([*INPUTS, "target_manifest_sha256", "method_version"], always=2)
)
def test_other_inputs_and_another_method_have_a_verdict_of_their_own(
    warehouse: Warehouse, name: str
) -> None:
    warehouse.commit(asked("undeclared"))
    other = {name: "x" * 64}
    warehouse.commit(asked("consistent", **other))
    assert verdict_of(warehouse) == "consistent"
    warehouse.commit(asked("undeclared", seed=1, **other))
    assert verdict_of(warehouse) == "consistent"
    # The first inputs come back: their first verdict does, too, whatever is asked of them now.
    warehouse.commit(asked("violated", seed=2))
    assert verdict_of(warehouse) == "undeclared"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", rest_slow([*INPUTS, "target_manifest_sha256", "method_version"], always=2)
)
def test_other_inputs_take_no_refutation_back_and_another_method_does(
    warehouse: Warehouse, name: str
) -> None:
    warehouse.commit(asked("violated"))
    warehouse.commit(asked("consistent", **{name: "x" * 64}))
    newer = name == "method_version"
    assert verdict_of(warehouse) == ("consistent" if newer else "violated")
    warehouse.commit(asked("not_evaluable", status="not_evaluable", method_version="3"))
    assert verdict_of(warehouse) == ("consistent" if newer else "violated")


@pytest.mark.slow
def test_a_withdrawn_first_audit_leaves_its_place_to_the_next(warehouse: Warehouse) -> None:
    warehouse.commit(asked("violated"))
    warehouse.commit(asked("consistent", seed=1))
    (first, _) = every_audit(warehouse)["audit_id"]
    warehouse.withdraw(first, "The plan was wrong.")
    assert verdict_of(warehouse) == "consistent"
    (told,) = asked_again(every_audit(warehouse))
    assert "withdrawn (The plan was wrong.)" in told


@pytest.mark.slow
def test_every_audit_is_listed_with_its_plan_and_who_asked(warehouse: Warehouse) -> None:
    warehouse.commit(asked("violated", asked_by="user anna", exploratory=False))
    fewer = json.loads(PLAN.model_dump_json()) | {"repetitions": 1}
    lower = asked("consistent", plan=json.dumps(fewer), exploratory=True)
    warehouse.commit(lower)
    warehouse.commit(lower)
    warehouse.commit(failed("ads", DAY + dt.timedelta(days=1)))
    found = every_audit(warehouse)
    assert found["times"].to_list() == [1, 2, 1]
    assert found["counts"].to_list() == [True, False, True]
    assert found["asked_by"].to_list() == ["user anna", "unknown", "unknown"]
    assert found["plan"].to_list() == ["the same", "repetitions 1", "the same"]
    assert every_audit(warehouse, model="none").height == 0
    assert every_audit(warehouse, day=DAY).height == 2
    (told,) = asked_again(found)
    assert told == (
        "2026-04-01: 2 audits: violated, by user anna, which counts; consistent, plan with "
        "repetitions 1, by unknown, exploratory."
    )

"""A model that declares nothing is held against the house's policy, where there is one."""

import pathlib

import numpy as np
import pytest

from tests.support.lake import DAY, declared, label_rows, put_labels, put_model, small_lake
from workers.audit.declaration import judged_by
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan

POLICY = Plan(repetitions=4, policy_epsilon=0.25)


def test_policy_is_for_those_who_declare_nothing() -> None:
    owner = Privacy.model_validate(declared(3.0))
    assert judged_by(owner, POLICY) is owner
    assert judged_by(None, Plan()) is None
    house = judged_by(None, POLICY)
    assert house is not None
    assert (house.epsilon, house.delta, house.declared_by) == (0.25, POLICY.delta, "policy")
    empty = Privacy.model_validate(declared(3.0, definition="bdp"))
    assert judged_by(empty, POLICY) is None


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose model learns labels by heart and declares nothing."""
    lake = small_lake(tmp_path_factory.mktemp("policy") / "lake")
    frame = label_rows(4_000, seed=3).with_columns(
        delay=np.random.default_rng(4).normal(size=4_000)
    )
    put_labels(lake, DAY, frame)
    heart = {"iterations": 150, "depth": 10, "learning_rate": 0.7, "l2_leaf_reg": 0.01}
    put_model(lake, DAY, parameters=heart)
    return lake


def test_a_leak_beyond_policy_is_a_violation_and_says_whose_limit_it_was(lake: Lake) -> None:
    without = run_audit(lake, "good", DAY, plan=Plan(repetitions=4), executor=InProcess())
    assert without.audit.verdict == "undeclared"
    record = run_audit(lake, "good", DAY, plan=POLICY, executor=InProcess())
    row = record.audit
    assert row.epsilon_lower == without.audit.epsilon_lower > 0.25
    assert row.verdict == "violated"
    assert "more than the 0.25 declared by policy" in row.reason
    assert (row.epsilon_declared, row.delta_declared) == (0.25, POLICY.delta)
    assert (row.declared_by, row.declared_at) == ("policy", None)
    assert record.wealth[0].epsilon_declared == 0.25
    assert verify(record, lake, InProcess()).finding is Finding.REPRODUCED


def test_a_bound_below_policy_is_consistent(lake: Lake) -> None:
    lenient = POLICY.model_copy(update={"policy_epsilon": 12.0})
    row = run_audit(lake, "good", DAY, plan=lenient, executor=InProcess()).audit
    assert row.verdict == "consistent"
    assert "12 declared by policy" in row.reason


def test_an_owners_declaration_comes_first(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path / "lake", privacy=declared(9.0))
    row = run_audit(lake, "good", DAY, plan=POLICY, executor=InProcess()).audit
    assert (row.epsilon_declared, row.declared_by) == (9.0, "a test")
    assert "policy" not in row.reason

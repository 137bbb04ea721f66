import pickle
import shutil

import pytest

from privcore.lower_bounds.verdicts import Verdict
from tests.support.damages import DAMAGES, Damage, malicious_pickle, witness
from tests.support.lake import DAY, PLAN, clone_model
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.schema import Status


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_bad_input_ends_as_a_record_that_says_why(lake: Lake, damage: Damage) -> None:
    clone_model(lake, "bad")
    damage.apply(lake, "bad")

    record = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess())

    row = record.audit
    assert (row.status, row.verdict) == (Status.NOT_EVALUABLE, Verdict.NOT_EVALUABLE)
    assert row.reason_code == damage.reason, row.reason
    assert row.reason.endswith(".")
    assert "\n" not in row.reason
    for word in damage.words:
        assert word in row.reason
    assert row.epsilon_lower is None
    assert record.bounds == record.promises == ()


def test_the_model_that_the_damages_start_from_is_evaluated(lake: Lake) -> None:
    clone_model(lake, "bad")
    row = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.status, row.reason_code) == (Status.EVALUATED, None)


def test_a_pickle_in_the_place_of_a_model_is_never_unpickled(lake: Lake) -> None:
    clone_model(lake, "bad")
    next(damage for damage in DAMAGES if damage.name == "model-is-a-pickle").apply(lake, "bad")
    run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess())
    assert not witness(lake).exists()

    pickle.loads(malicious_pickle(lake))  # noqa: S301  # proves that the witness would have come
    assert witness(lake).exists()


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "../labels",
        "a/b",
        "/etc",
        "a\\b",
        "day=2026-03-02",
        "a\n",
        "ü",
        "x" * 101,
    ],
)
def test_a_name_that_could_walk_out_of_the_lake_is_refused(lake: Lake, name: str) -> None:
    shutil.copytree(f"{lake.uri}/models/good", f"{lake.uri}/x")
    row = run_audit(lake, name, DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.status, row.reason_code) == (Status.NOT_EVALUABLE, "name_invalid")
    assert repr(name) in row.reason

"""A trained checkpoint is complete: the audit reads it, re-accounts it, and comes to a verdict."""

import datetime as dt

import pytest

from privcore.lower_bounds.verdicts import Verdict
from tests.support.audits import audited
from tests.support.lake import BINARY, DAY, EVE, FEATURES, label_rows, put_labels
from workers.lake.layout import Lake
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MultiStage
from workers.warehouse.schema import Status


@pytest.mark.slow
def test_the_audit_accounts_for_what_training_declared(tmp_path):
    lake = Lake(str(tmp_path))
    named = {"name": "randomized_response", "parameters": {"epsilon": 2.0, "classes": 2}}
    privacy = {
        "definition": "label_dp", "neighbors": "replace", "unit": "flight", "epsilon": 2.0,
        "delta": 0.0, "mechanism": named, "declared_by": "a test",
        "declared_at": dt.datetime(2026, 3, 1, tzinfo=dt.UTC),
    }  # fmt: skip
    few = {"iterations": 5, "depth": 3}
    recipe = Recipe("private", "flights", BINARY, FEATURES, MultiStage(2.0), privacy, few)
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(600, seed=seed))
        assert train(lake, TrainingJob(recipe, day, seed=1)) > 400
    audit = audited(lake, model="private")
    assert audit.status == Status.EVALUATED
    assert audit.epsilon_accounted == pytest.approx(2.0, rel=1e-9)
    assert audit.verdict != Verdict.VIOLATED

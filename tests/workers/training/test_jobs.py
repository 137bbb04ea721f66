"""A trained checkpoint is complete: the audit reads it, re-accounts it, and comes to a verdict."""

import pytest

from tests.support.audits import audited
from tests.support.lake import BINARY, DAY, EVE, FEATURES, label_rows, manifest_of, put_labels
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong
from workers.lake.layout import Lake
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MECHANISMS, method_named
from workers.warehouse.schema import Status

FEW = {"iterations": 5, "depth": 3}
DECLARED = {"definition": "label_dp", "neighbors": "replace", "unit": "flight"}
BY = {"declared_by": "a test", "declared_at": "2026-03-01T00:00:00Z"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(600, seed=seed))
    return lake


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_slow(MECHANISMS, always=4))
def test_the_audit_accounts_for_what_training_declared(lake, name):
    method = method_named(name, 2.0, teachers=5, queries=20)
    entry = {"epsilon": 2.0, "delta": method.delta, "mechanism": method.manifest_entry(2)}
    privacy = DECLARED | BY | entry
    recipe = Recipe(name, "flights", BINARY, FEATURES, method, privacy, FEW)
    for day in (EVE, DAY):
        assert train(lake, TrainingJob(recipe, day, seed=1)) > 400
    assert manifest_of(lake, name, DAY)["privacy"]["epsilon"] == 2.0
    audit = audited(lake, model=name)
    assert audit.status == Status.EVALUATED
    assert audit.epsilon_accounted == pytest.approx(2.0, rel=1e-9)
    assert nothing_wrong(audit)
    # Of a student of teachers the file counts the rows that these were asked about.
    assert "rows_miscounted" not in audit.remarks

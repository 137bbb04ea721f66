"""A model that takes its child over as it scores rows ends its own audit, with one sentence."""

import catboost
import pytest

from tests.support import hostile_models
from tests.support.audits import run_audits
from tests.support.boundary import contained
from tests.support.hostile_models import ATTEMPTS, TREES
from tests.support.lake import DAY, EVE, PLAN, clone_model, edit_manifest, label_rows, replace_model
from workers.audit.request import Request
from workers.contained import closed_here
from workers.executors import InProcess
from workers.lake import model_sandbox

CLOSED = len(closed_here()) >= 3
RAISED = "cannot score these rows with CatBoost: export it again"
SAID = {
    "opens_a_socket": RAISED,
    "reads_the_environment": RAISED,
    "writes_a_file": RAISED,
    "forks": RAISED,
    "eats_memory": "cannot score these rows: CatBoost took over",
    "loops": "cannot score these rows: CatBoost took over 5 seconds",
    "crashes": "cannot score these rows: CatBoost crashed (SIGSEGV)",
    "alters_features": RAISED,
    "shrinks_features": RAISED,
    "shrinks_its_answers": "gives no answer of 2 classes for each of",
    "kills_its_parent": RAISED,
}


@pytest.fixture
def lake(lake):
    """Return a lake in which every attempt is a model that shares its labels with a good one."""
    rows = label_rows(300, seed=5)
    pool = catboost.Pool(
        rows.select("delay", "hour", "city"), rows["late"].to_numpy(), cat_features=["city"]
    )
    for place, name in enumerate(ATTEMPTS):
        model = catboost.CatBoostClassifier(
            iterations=TREES + place, verbose=0, thread_count=1, allow_writing_files=False
        )
        clone_model(lake, name)
        replace_model(lake, name, DAY, bytes(model.fit(pool)._serialize_model()))
        for day in (EVE, DAY):
            edit_manifest(lake, name, day, dataset="flights")
    return lake


@pytest.mark.skipif(not CLOSED, reason="this machine grants less")
def test_a_hostile_model_ends_its_own_audit_with_a_sentence(lake, limit, monkeypatch):
    limit("MODEL_SECONDS", 5)
    monkeypatch.setattr("workers.contained._GRACE", 1.0)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", hostile_models.PLANTED)
    requests = [Request(name, PLAN) for name in (*ATTEMPTS, "good")]
    with contained(hostile_models.answer, seconds=20, memory=4 << 30, fork=True) as made:
        monkeypatch.setattr(model_sandbox, "_contained", lambda _: made)
        model_sandbox.let_go()
        records = run_audits(lake, DAY, requests, executor=InProcess())
        found = {record.audit.model: record.audit for record in records}
        model_sandbox.let_go()
    assert found.keys() == {*SAID, "good"}
    for name, said in SAID.items():
        row = found[name]
        assert (row.status, row.detail) == ("not_evaluable", "checkpoint_invalid"), name
        assert row.reason.startswith(f"The model {name} of {DAY} {said}"), row.reason
    assert found["good"].status == "evaluated"
    assert found["good"].epsilon_lower is not None

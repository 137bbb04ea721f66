"""A model that takes its child over as it scores rows ends its own audit, with one sentence."""

import catboost
import pytest

from tests.support import hostile_models
from tests.support.audits import run_audits
from tests.support.boundary import contained
from tests.support.lake import DAY, PLAN, label_rows, replace_model
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
    "loops": "cannot score these rows: CatBoost took over 3 seconds",
    "crashes": "cannot score these rows: CatBoost crashed (SIGSEGV)",
    "alters_features": RAISED,
    "shrinks_features": RAISED,
    "shrinks_its_answers": "gives no answer of 2 classes for each of",
    "kills_its_parent": RAISED,
}


@pytest.fixture(scope="module")
def small_model():
    rows = label_rows(300, seed=5)
    pool = catboost.Pool(
        rows.select("delay", "hour", "city"), rows["late"].to_numpy(), cat_features=["city"]
    )
    model = catboost.CatBoostClassifier(
        iterations=hostile_models.TREES, verbose=0, thread_count=1, allow_writing_files=False
    )
    return bytes(model.fit(pool)._serialize_model())


@pytest.fixture
def lake(lake, small_model):
    replace_model(lake, "bad", DAY, small_model)
    return lake


@pytest.fixture(params=SAID)
def attempt(request, limit, monkeypatch):
    name = f"{hostile_models.__name__}:{request.param}"
    with contained(name, seconds=20, memory=4 << 30, fork=True) as made:
        monkeypatch.setattr(model_sandbox, "_contained", lambda _: made)
        limit("MODEL_SECONDS", 3 if request.param == "loops" else 120)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", hostile_models.PLANTED)
        model_sandbox.let_go()
        yield request.param
        model_sandbox.let_go()


@pytest.mark.skipif(not CLOSED, reason="this machine grants less")
def test_a_hostile_model_ends_its_own_audit_with_a_sentence(attempt, lake):
    requests = [Request("bad", PLAN), Request("good", PLAN)]
    bad, good = run_audits(lake, DAY, requests, executor=InProcess())
    assert (bad.audit.status, bad.audit.detail) == ("not_evaluable", "checkpoint_invalid")
    assert bad.audit.reason.startswith(f"The model bad of {DAY} {SAID[attempt]}"), bad.audit.reason
    assert good.audit.status == "evaluated"
    assert good.audit.epsilon_lower is not None

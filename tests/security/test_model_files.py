"""A crafted model file reads nothing beside it, stays within memory and ends no other audit."""

import catboost
import numpy as np
import onnx
import pytest

from privcore.exceptions import InvalidInputError
from tests.support import hostile_models
from tests.support.audits import run_audits
from tests.support.boundary import contained
from tests.support.hostile_models import ATTEMPTS, TREES
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    clone_model,
    edit_manifest,
    label_rows,
    replace_model,
    small_lake,
)
from tests.support.onnx_files import ANSWER, ONES, SCORES, onnx_file
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.contained import closed_here
from workers.executors import InProcess
from workers.lake import model_sandbox
from workers.lake.model_sandbox import ModelRefusedError, describe_model
from workers.memorization.language_models import ModelFile, NgramCounts
from workers.plan import Plan


@pytest.mark.parametrize("place", ["weights.bin", "/etc/passwd", "a\x1b[2J", ""])
def test_onnx_files_beside_a_model_are_never_opened(place):
    outside = onnx.TensorProto(name="W", data_type=1, dims=list(ONES.shape), data_location=1)
    outside.external_data.add(key="location", value=place)
    outside.external_data.add(key="length", value=str(1 << 62))
    with pytest.raises(ModelRefusedError) as refused:
        describe_model(onnx_file([SCORES, ANSWER], weights=[outside]), form="onnx")
    assert "files beside it" in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_an_ngram_model_is_read_and_asked_in_a_contained_process(monkeypatch):
    """600 MB of nested lists took 16 GB of the command."""
    file = ModelFile("m.json", NgramCounts.of([np.array([97, 98])], 2).to_json())

    def never(_: bytes) -> NgramCounts:
        raise AssertionError("it was read here")

    monkeypatch.setattr(NgramCounts, "from_json", never)
    with pytest.raises(InvalidInputError, match="it is a file of the format"):
        ModelFile("m.json", b'{"counts": [[],[]]}').check()
    file.check()
    assert file.log_probabilities(np.array([97, 98, 256])).shape == (3, 257)


DESCRIBED = {"kinds": ["numeric"], "names": ["x"], "classes": None, "class_count": 2}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"refused": 1},
        DESCRIBED | {"kinds": ["strange"]},
        DESCRIBED | {"names": "x"},
        {key: said for key, said in DESCRIBED.items() if key != "names"},
        DESCRIBED | {"class_count": 10**9},
        DESCRIBED | {"rows": [-1, True]},
    ],
    ids=str,
)
def test_an_answer_about_a_model_that_is_none_is_that_models_alone(tmp_path, monkeypatch, answer):
    """A file that took its reader over made an unexpected error of its audit."""
    lake = small_lake(tmp_path, days=(EVE, DAY))
    monkeypatch.setattr(model_sandbox.Holding, "ask", lambda *_, **__: answer)
    found = run_audit(lake, "good", DAY, plan=Plan(repetitions=4), executor=InProcess()).audit
    assert (found.status, found.detail) == ("not_evaluable", "checkpoint_invalid")
    assert "cannot be read: CatBoost's reader gave an answer that is none" in found.reason


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

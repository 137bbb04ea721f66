"""Label and model files with some bytes changed: each ends as its own model's record, at most.

`corpus` keeps files that were interesting once: one for each way in which the first hundreds ended,
and every file that has ever ended a process or an audit with an error.
"""

import hashlib
import pathlib

import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, declared, edit_manifest, label_path, model_path, small_lake
from workers.lake import limits, model_sandbox
from workers.plan import Plan

CORPUS = sorted(pathlib.Path(__file__).with_name("corpus").iterdir())
PLAN = Plan(repetitions=1, minimum_records=50, minimum_control_records=10, slices=("city",))


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Yield a lake for each kind of file; some models are read without end, and soon given up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "MODEL_SECONDS", 4)
        model_sandbox._contained.cache_clear()
        model_sandbox.let_go()  # a reader that another test began has longer
        yield {
            kind: small_lake(tmp_path_factory.mktemp(kind), rows=120, privacy=declared())
            for kind in ("labels", "model")
        }
    model_sandbox._contained.cache_clear()
    model_sandbox.let_go()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_kept_file_ends_as_a_record(path, lakes):
    kind, content = path.name.partition("-")[0], path.read_bytes()
    lake = lakes[kind]
    if kind == "model":
        (model_path(lake, "good") / "model.cbm").write_bytes(content)
        edit_manifest(lake, "good", DAY, sha256=hashlib.sha256(content).hexdigest())
    else:
        label_path(lake, "flights").write_bytes(content)
    row = audited(lake, PLAN)
    assert row.status in {"evaluated", "not_evaluable"}, row.reason
    assert row.status != "evaluated" or row.verdict != "failed"
    assert (row.status == "evaluated") == (row.epsilon_lower is not None)

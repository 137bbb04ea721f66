"""Label and model files with some bytes changed: each ends as its own model's record, at most.

`corpus` keeps files that were interesting once: one for each way in which the first hundreds ended,
and every file that has ever ended a process or an audit with an error.
"""

import functools
import pathlib

import pytest

from tests.hostile.fuzz import KINDS, SECONDS, audited, make_lake
from workers.lake import checkpoints, limits, model_sandbox

CORPUS = sorted(pathlib.Path(__file__).with_name("corpus").iterdir())


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Yield a lake for each kind of file; CatBoost reads a checkpoint that stays once."""
    with pytest.MonkeyPatch.context() as patched:
        describe = functools.lru_cache(8)(checkpoints.describe_model)
        patched.setattr(checkpoints, "describe_model", describe)
        patched.setattr(limits, "MODEL_SECONDS", SECONDS)
        model_sandbox._contained.cache_clear()
        yield {kind: make_lake(tmp_path_factory.mktemp(kind)) for kind in KINDS}
    model_sandbox._contained.cache_clear()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_kept_file_ends_as_a_record(path, lakes):
    kind = path.name.partition("-")[0]
    said = audited(lakes[kind], kind, path.read_bytes())
    assert said["status"] in {"evaluated", "not_evaluable"}, said
    assert said["status"] != "evaluated" or said["verdict"] != "failed"
    assert (said["status"] == "evaluated") == (said["epsilon_lower"] is not None)

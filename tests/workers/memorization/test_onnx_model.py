"""An ONNX language model says what its weights say, and is refused where audited models are."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from tests.support.refusals import refused
from workers.memorization.language_models import ModelFile, read_model

FLOAT, INT64 = 1, 7
ZEROS = np.zeros((5, 5))
LAST = helper.make_node("Identity", ["rows"], ["logits"])
CHANCE = helper.make_node("RandomNormalLike", ["rows"], ["logits"])


def language_model(nodes, inputs=("ids",), table=ZEROS):
    """Return a file of nodes that make `logits` of `rows`, the rows of a bigram of `ids`."""
    table = numpy_helper.from_array(table.astype(np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["rows"]), *nodes],
        "graph",
        [helper.make_tensor_value_info(name, INT64, ["one", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("logits", FLOAT, None)],
        [table],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_it_says_what_its_weights_say():
    weights = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    model = ModelFile("bigram.onnx", language_model([LAST], table=weights), begin=4)
    rows = model.log_probabilities(np.array([2, 0, 3]))
    expected = log_softmax(weights.astype(float)[[4, 2, 0]], axis=1)
    assert rows == pytest.approx(expected, abs=1e-6)
    assert np.exp(rows).sum(axis=1) == pytest.approx(1.0)


def test_a_model_of_another_shape_is_refused():
    flat = ModelFile("flat.onnx", language_model([LAST], table=np.zeros(5)))
    refused("first output", flat.log_probabilities, np.array([1, 2]))
    refused("is not in ONNX's format", ModelFile("bad.onnx", b"nothing").check)


def saved(folder, content, *, external=False):
    path = folder / "model.onnx"
    path.write_bytes(content)
    if external:
        model = onnx.load(path)
        onnx.save(model, path, save_as_external_data=True, location="beside", size_threshold=0)
    return str(path)


def test_a_file_is_read_as_those_of_audited_models_are(tmp_path):
    place = saved(tmp_path, language_model([LAST]))
    assert read_model(place, begin=4).log_probabilities(np.array([1, 2])).shape == (2, 5)
    refused(r"it cannot score a sequence: .*out of .*bounds", read_model, place, begin=5)


@pytest.mark.parametrize(
    ("content", "external", "why"),
    [
        (language_model([LAST]), True, "it keeps weights in files"),
        (language_model([CHANCE]), False, "it has the operator 'RandomNormalLike'"),
        (language_model([LAST], inputs=("ids", "mask")), False, "it takes more than token ids"),
        (b"nothing", False, "it is not in ONNX's format, or is damaged: save it again"),
    ],
    ids=["external", "chance", "mask", "nothing"],
)
def test_a_file_is_refused_for_what_those_of_audited_models_are(
    tmp_path, monkeypatch, content, external, why
):
    """Weights came from the working folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=f"model is 'model.onnx', but {why}"):
        read_model(saved(tmp_path, content, external=external))

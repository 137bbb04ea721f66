"""The ninth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_files import onnx_file
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import ModelRefusedError


def other_label_where(asked: str, number: int) -> bytes:
    """Return a model that gives rows another label where `asked` holds of how many they are."""
    node = helper.make_node
    weights = {"W": np.eye(3, 2, dtype=np.float32), "first": np.array(0)}
    weights["number"] = np.array(number)
    nodes = [
        node("MatMul", ["X", "W"], ["Z"]),
        node("Softmax", ["Z"], ["Y"]),
        node("Shape", ["X"], ["shape"]),
        node("Gather", ["shape", "first"], ["rows"]),
        node(asked, ["rows", "number"], ["asked"]),
        node("ArgMax", ["Y"], ["plain"], axis=1, keepdims=0),
        node("ArgMin", ["Y"], ["other"], axis=1, keepdims=0),
        node("Where", ["asked", "other", "plain"], ["L"]),
    ]
    kept = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = onnx.ModelProto.FromString(onnx_file(nodes, weights=kept))
    model.graph.output.append(helper.make_tensor_value_info("L", TensorProto.INT64, ["rows"]))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("asked", "number", "rows", "how"),
    [
        ("Equal", 1, 200, "alone"),
        ("Greater", 8, 8, r"among \d+ rows"),
        ("Greater", 2_000, 8, None),
    ],
    ids=["alone", "in-small-row-groups", "never"],
)
def test_labels_and_answers_that_depend_on_how_many_rows_are_asked_are_refused(
    asked: str, number: int, rows: int, how: str | None
) -> None:
    """A label alone follows from any probability: each single question gave one of training.

    Of a table of eight rows a group, no more were asked about at once: 5.4 became 0.00.
    """
    model = onnx_format.load(other_label_where(asked, number))
    given = {"X": np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)}
    if how is None:
        onnx_format.predict(model, given, threads=1)
        return
    with pytest.raises(ModelRefusedError, match=f"scores a row differently {how}"):
        onnx_format.predict(model, given, threads=1)

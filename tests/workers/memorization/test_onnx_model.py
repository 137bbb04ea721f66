"""An ONNX language model says what its weights say; the file is written field by field."""

import numpy as np
import pytest
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from workers.memorization.models import ModelFile

FLOAT, INT64 = 1, 7


def field(number, content):
    """Return a protobuf field: a number, or text and messages with their length."""

    def varint(value):
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def value(name, kind, ends):
    shape = b"".join(field(1, field(2, end)) for end in ends)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def bigram_file(weights):
    """Return an ONNX file whose logits are the row of `weights` of each token: a Gather."""
    size = weights.shape[0]
    tensor = (
        b"".join(field(1, end) for end in weights.shape)
        + field(2, FLOAT)
        + field(8, "weights")
        + field(9, weights.astype("<f4").tobytes())
    )
    node = (
        field(1, "weights")
        + field(1, "ids")
        + field(2, "logits")
        + field(3, "g")
        + field(4, "Gather")
    )
    graph = (
        field(1, node)
        + field(2, "bigram")
        + field(5, tensor)
        + field(11, value("ids", INT64, ["one", "tokens"]))
        + field(12, value("logits", FLOAT, ["one", "tokens", str(size)]))
    )
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def test_it_says_what_its_weights_say():
    weights = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    model = ModelFile("bigram.onnx", bigram_file(weights), begin=4).load()
    rows = model.log_probabilities(np.array([2, 0, 3]))
    expected = log_softmax(weights.astype(float)[[4, 2, 0]], axis=1)
    assert rows == pytest.approx(expected, abs=1e-6)
    assert np.exp(rows).sum(axis=1) == pytest.approx(1.0)


def test_a_model_of_another_shape_is_refused():
    flat = ModelFile("flat.onnx", bigram_file(np.zeros(5, dtype=np.float32))).load()
    with pytest.raises(InvalidInputError, match="first output"):
        flat.log_probabilities(np.array([1, 2]))
    with pytest.raises(InvalidInputError, match="cannot be loaded"):
        ModelFile("bad.onnx", b"nothing").load()

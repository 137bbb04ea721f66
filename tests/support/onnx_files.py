"""ONNX files of chosen nodes, of three features and two classes."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

ONES = np.ones((3, 2), np.float32)
SCORES = helper.make_node("MatMul", ["X", "W"], ["S"])
ANSWER = helper.make_node("Softmax", ["T"], ["Y"], axis=1)
Values = Mapping[str, tuple[int, list[Any]]]
"""Inputs or outputs: a type and a shape each."""


def onnx_file(
    nodes: Iterable[Any], *, given: Values = MappingProxyType({"X": (1, ["rows", 3])}),
    said: Values = MappingProxyType({"Y": (1, ["rows", 2])}), weights: Iterable[Any] = (),
    domain: str = "", opset: int = 17, **arrays: Any,
) -> bytes:  # fmt: skip
    """Return a file of nodes; `weights` are tensors as they are, `arrays` values by their names."""
    values = [numpy_helper.from_array(np.asarray(each), name) for name, each in arrays.items()]
    graph = helper.make_graph(
        list(nodes), "graph", *([helper.make_tensor_value_info(name, *each)
        for name, each in some.items()] for some in (given, said)), [*weights, *values],
    )  # fmt: skip
    opsets = [helper.make_opsetid(each, opset if not each else 1) for each in {"", domain}]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())

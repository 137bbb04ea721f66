"""ONNX files of chosen nodes, of three features and two classes."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

WEIGHTS = numpy_helper.from_array(np.ones((3, 2), np.float32), "W")
SCORES = helper.make_node("MatMul", ["X", "W"], ["S"])
ANSWER = helper.make_node("Softmax", ["T"], ["Y"], axis=1)


def onnx_file(
    nodes: list[Any], *, weights: list[Any] | None = None, domain: str = "", opset: int = 17
) -> bytes:
    shape = ["rows", 3]
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info("X", 1, shape)],
        [onnx.helper.make_tensor_value_info("Y", 1, ["rows", 2])],
        weights or [],
    )
    opsets = [onnx.helper.make_opsetid(each, opset if not each else 1) for each in {"", domain}]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())

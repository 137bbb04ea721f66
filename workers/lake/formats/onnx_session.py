"""ONNX: a file's graph, checked, and a session that runs it, of classifiers and language models.

Files beside the model, an author's own operators, and operators of chance are refused.
"""

import re
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime

from workers.lake.formats.contract import ModelRefusedError

_STANDARD = {"", "ai.onnx", "ai.onnx.ml"}
_NEWER_IR = re.compile(r"IR version: (\d+), max supported IR version: (\d+)")
_NEWER_OPSET = re.compile(
    r"Opset (\d+) is under.{0,999}domain (\S+) is till opset (\d+)", re.DOTALL
)
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
           "RandomUniformLike"}  # fmt: skip


def open_session(content: bytes) -> Any:
    """Return a session on one thread; without a path, no file beside the model can be found."""
    onnxruntime.disable_telemetry_events()  # nothing leaves the machine unasked
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # It also knows a format of its own, and a file can be of both: what was checked is what is run.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a dozen of its own, and no class above them
        _check_newer(str(error))
        raise


def _check_newer(said: str) -> None:
    """Refuse a file that is newer than this onnxruntime, by the numbers that it says."""
    own = f"and onnxruntime {onnxruntime.__version__} reads up to"
    if found := _NEWER_IR.search(said):
        raise ModelRefusedError(
            f"has the IR version {found[1]}, {own} {found[2]}: set ir_version = {found[2]} in "
            "onnx, and save it again; or upgrade onnxruntime"
        )
    if found := _NEWER_OPSET.search(said):
        raise ModelRefusedError(
            f"has the opset {found[1]} of {found[2]}, {own} {found[3]}: convert it with a target "
            "opset of that; or upgrade onnxruntime"
        )


def check_graphs(content: bytes) -> None:
    """Refuse what the standard does not define, what lies in other files, and chance."""
    model = onnx.load_model_from_string(content)
    if model.functions:
        raise ModelRefusedError("has operators of its own: export it without local functions")
    for graph in _graphs(model.graph):
        for node in graph.node:
            if node.domain not in _STANDARD:
                raise ModelRefusedError(
                    f"has the operator {node.op_type!r} of {node.domain!r}: only ONNX's own are run"
                )
            if node.op_type in _RANDOM or (node.op_type == "Dropout" and len(node.input) > 2):
                raise ModelRefusedError(
                    f"has the operator {node.op_type!r}, which may answer by chance: export the "
                    "model for inference"
                )
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelRefusedError("keeps weights in files beside it: save it as one file")


def graph_words(content: bytes) -> frozenset[str]:
    """Return all text that a file's graph holds, the categories that it knows among it."""
    graph = onnx.load_model_from_string(content).graph
    given = [attribute for each in _graphs(graph) for node in each.node
             for attribute in node.attribute]  # fmt: skip
    words = [word for attribute in given for word in attribute.strings]
    words += [word for tensor in _tensors(graph) for word in tensor.string_data]
    return frozenset(word.decode(errors="replace") for word in words)


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer or inner.sparse_initializer:
                    yield from _graphs(inner)


def _tensors(graph: Any) -> Iterator[Any]:
    for each in _graphs(graph):
        yield from each.initializer
        sparse = [*each.sparse_initializer]
        for node in each.node:
            for attribute in node.attribute:
                yield attribute.t
                yield from attribute.tensors
                sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
        for both in sparse:
            yield both.values
            yield both.indices

"""Proof, from an ONNX file's graph alone, that each row's answer depends on that row alone.

Nothing is run. Each tensor is a constant, or has one axis on which the rows of a batch lie, and its
part at a row follows from that row's features by the same rule in batches of any size. An operator
that is in no table, or that is asked for an axis on which rows lie, ends the proof. What numbers of
32 or 64 bits make of the order in which a library adds is left to the samples that are scored.
"""

from typing import Any

import onnx
from onnx import numpy_helper

from workers.lake.formats.onnx_row_rules import rule_of
from workers.lake.formats.onnx_traced import (
    FEW_ENTRIES,
    ROWS,
    NotShownError,
    RowCount,
    Traced,
    TracedNode,
)

_NAME_CHARACTERS = 60
_VALUES = {"value_float": 0, "value_int": 0, "value_string": 0}
_LISTS = ("value_floats", "value_ints", "value_strings")
_NOT_SHOWN = (NotShownError, LookupError, TypeError, ValueError)
"""Of a rule: what a file's own attributes may lack, the session checks."""
_Env = dict[str, Traced | str]
"""What is known of each tensor, by its name; a text says which node ended the proof."""


def mixing_node(content: bytes) -> str:
    """Return the node because of which rows cannot be shown to be answered alone, or ""."""
    model = onnx.load_model_from_string(content)
    graph = model.graph
    known: _Env = _constants(graph)
    for given in graph.input:
        if given.name not in known:
            known[given.name] = _input(given)
    for node in graph.node:
        _follow(node, known)
    return _first_mixed(graph, known)


def _follow(node: Any, known: _Env) -> None:
    """Add what is known of a node's outputs; of those that no rule speaks of, nothing is."""
    called = node.op_type + (f" ({node.name[:_NAME_CHARACTERS]!r})" if node.name else "")
    inputs = [known.get(name, called) if name else None for name in node.input]
    mixed = [each for each in inputs if isinstance(each, str)]
    outputs: list[Traced | str] = list(mixed[:1])
    if not mixed:
        traced = [each for each in inputs if not isinstance(each, str)]
        try:
            outputs = list(_outputs(node, traced))
        except _NOT_SHOWN:
            outputs = [called]
    last = outputs[-1] if isinstance(outputs[-1], str) else called
    outputs += [last] * (len(node.output) - len(outputs))
    for name, found in zip(node.output, outputs, strict=False):
        known[name] = called if name in known else found


def _outputs(node: Any, inputs: list[Traced | None]) -> list[Traced]:
    """Return what a node's first outputs are; shapes of constants may be unknown."""
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type == "Scan":
        return _scanned(inputs, attributes)
    if any(isinstance(each, onnx.GraphProto) for each in attributes.values()) or any(
        each.graphs for each in node.attribute
    ):
        raise NotShownError  # what is within reads any tensor around it
    of_rows = any(each is not None and each.of_rows for each in inputs)
    if node.op_type == "Constant" and node.domain != "ai.onnx.ml":
        return [_constant(attributes)]
    rule = rule_of(node.domain, node.op_type)
    if not of_rows:
        try:
            known = [] if rule is None else rule(TracedNode(node.op_type, inputs, attributes))
        except _NOT_SHOWN:
            known = []
        return [*known, *[Traced(None)] * len(node.output)]
    if rule is None:
        raise NotShownError
    outputs = rule(TracedNode(node.op_type, inputs, attributes))
    rows = any(each is not None and each.axis is not None for each in inputs)
    for each in outputs:
        sizes = [size for size in each.shape or () if isinstance(size, RowCount)]
        if len(sizes) != 1 and (rows or each.entries is None) and node.op_type != "Shape":
            raise NotShownError
    return outputs


def _scanned(inputs: list[Traced | None], attributes: dict[str, Any]) -> list[Traced]:
    """Return what goes round by a constant's parts: a step keeps rows on the axes it found them on.

    So distances to points of the training are converted.
    """
    body, states = attributes["body"], len(inputs) - 1
    scanned = inputs[-1]
    if set(attributes) != {"body", "num_scan_inputs"} or attributes["num_scan_inputs"] != 1:
        raise NotShownError
    if scanned is None or not scanned.shape or scanned.of_rows or len(body.input) != len(inputs):
        raise NotShownError
    known = _constants(body)
    for given, traced in zip(body.input, [*inputs[:-1], Traced(scanned.shape[1:])], strict=True):
        if traced is None or traced.shape is None or (traced.of_rows and traced.axis is None):
            raise NotShownError
        known[given.name] = Traced(traced.shape)
    for node in body.node:
        _follow(node, known)
    outputs = [known.get(each.name, "") for each in body.output]
    found = [each for each in outputs if not isinstance(each, str)]
    kept = [known[each.name] for each in body.input][:states]
    if len(found) != len(outputs) or any(
        isinstance(before, str) or before.shape != after.shape
        for before, after in zip(kept, found, strict=False)
    ):
        raise NotShownError
    more = [Traced((scanned.shape[0], *(each.shape or ()))) for each in found[states:]]
    return [*(Traced(each.shape) for each in found[:states]), *more]


def _first_mixed(graph: Any, known: _Env) -> str:
    """Return why an output of the graph is not one answer for each row, or ""."""
    for output in graph.output:
        found = known.get(output.name, "an output that no operator makes")
        if isinstance(found, str):
            return found
        rest = [each for each in found.shape or () if each != 1]
        if rest[:1] != [ROWS] or any(isinstance(each, RowCount) for each in rest[1:]):
            return f"the output {output.name[:_NAME_CHARACTERS]!r}, which is not one for each row"
    return ""


def _input(given: Any) -> Traced | str:
    kind = given.type.tensor_type
    if not kind.HasField("shape") or not kind.shape.dim:
        return f"the input {given.name[:_NAME_CHARACTERS]!r}, whose shape is not said"
    # onnxruntime takes a negative width as an unknown one; two of them would multiply to one.
    widths = [each.dim_value if each.dim_value > 0 else None for each in kind.shape.dim]
    return Traced((ROWS, *widths[1:]))


def _constants(graph: Any) -> _Env:
    known: _Env = {each.name: _of_tensor(each) for each in graph.initializer}
    for each in graph.sparse_initializer:
        known[each.values.name] = Traced(tuple(each.dims))
    return known


def _constant(attributes: dict[str, Any]) -> Traced:
    if "value" in attributes:
        return _of_tensor(attributes["value"])
    for name, value in attributes.items():
        if name in _VALUES:
            return Traced((), (value,) if isinstance(value, int) else None)
        if name in _LISTS:
            whole = len(value) <= FEW_ENTRIES and all(isinstance(each, int) for each in value)
            return Traced((len(value),), tuple(value) if whole else None)
    return Traced(None)


def _of_tensor(tensor: Any) -> Traced:
    """Return a constant's shape, with its values where they are few and whole numbers."""
    shape, size = tuple(tensor.dims), 1
    for each in shape:
        size *= each
    whole = tensor.data_type in {onnx.TensorProto.INT32, onnx.TensorProto.INT64}
    if not whole or len(shape) > 1 or size > FEW_ENTRIES:
        return Traced(shape)
    return Traced(shape, tuple(numpy_helper.to_array(tensor).reshape(-1).tolist()))

"""Random chains of ONNX operators, many of which let rows of a batch meet."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WIDTH = 3
_CONSTANTS = ((3,), (1,), (2, 3), (6,), (3, 1), (1, 3), (2, 1), ())
_SQUARES = ((3, 2), (3,), (3, 3), (2, 3), (6, 3), (3, 6))
_PICKED = ([0], [1, 0], 0, [2, 2], [-1])


class _Chain:
    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.nodes, self.made = random, [], 0
        self.weights: dict[str, NDArray[Any]] = {}
        self.floats, self.sizes = ["X"], [self.add("Shape", ["X"])]

    def add(self, kind: str, inputs: list[str], outputs: int = 1, **more: Any) -> str:
        self.made += 1
        names = [f"t{self.made}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=names[0], **more))
        return names[0]

    def constant(self, value: Any, kind: Any = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype=kind)
        return name

    def normal(self, shapes: tuple[tuple[int, ...], ...]) -> str:
        shape = shapes[self.random.integers(len(shapes))]
        return self.constant(self.random.normal(size=shape), np.float32)

    def any_of(self, *values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def given(self) -> str:
        return str(self.any_of(*self.floats[-5:]))

    def axis(self) -> int:
        return int(self.any_of(-2, -1, 0, 1, 1, 1, 2))

    def step(self) -> None:
        """Add one operator."""
        one, axis, kept = self.given(), self.axis(), int(self.any_of(0, 1))
        size, square = self.any_of(*self.sizes), self.normal(_SQUARES)
        small = [int(self.any_of(-1, 0, 1, 1, 2, 3, 6)) for _ in range(self.any_of(1, 2, 3))]
        asked = self.any_of(*_KINDS)
        learner = {"domain": "ai.onnx.ml"}
        found = {
            "add": lambda: self.add(self.any_of("Add", "Mul"), [one, self.given()]),
            "add constant": lambda: self.add("Add", [one, self.normal(_CONSTANTS)]),
            "multiply": lambda: self.add("MatMul", [one, self.given()]),
            "by constant": lambda: self.add("MatMul", self.any_of([one, square], [square, one])),
            "gemm": lambda: self.add("Gemm", [one, square], transA=kept),
            "reshape": lambda: self.add("Reshape", [one, self.constant(small)]),
            "by size": lambda: self.add(
                "Reshape",
                [one, self.add("Concat", [size, self.constant(small[:1])], axis=0)],
            ),
            "transpose": lambda: self.add("Transpose", [one]),
            "reduce": lambda: self.add("ReduceMax", [one], axes=[axis], keepdims=kept),
            "softmax": lambda: self.add("Softmax", [one], axis=axis),
            "squeeze": lambda: self.add("Squeeze", [one, self.constant([axis])][: 1 + kept]),
            "unsqueeze": lambda: self.add("Unsqueeze", [one, self.constant([axis])]),
            "concat": lambda: self.add("Concat", [one, self.given()], axis=axis),
            "gather": lambda: self.add("Gather", [one, self.picked()], axis=axis),
            "slice": lambda: self.add("Slice", [one, *map(self.constant, ([0], [2], [axis]))]),
            "split": lambda: self.add("Split", [one, self.constant([1, 2])], 2, axis=axis),
            "tile": lambda: self.add("Tile", [one, self.constant([self.any_of(1, 2), 2])]),
            "expand": lambda: self.add("Expand", [self.normal(_CONSTANTS), size]),
            "fill": lambda: self.add("ConstantOfShape", [size]),
            "highest": lambda: self.add("TopK", [one, self.constant([2])], 2, axis=axis),
            "sum up": lambda: self.add("CumSum", [one, self.constant(axis)]),
            "flatten": lambda: self.add("Flatten", [one], axis=axis),
            "normal": lambda: self.add("Normalizer", [one], norm="L1", **learner),
            "picked": lambda: self.add(
                "ArrayFeatureExtractor", [one, self.constant([1, 0])], **learner
            ),
            "most": lambda: self.add(
                "Cast", [self.add("ArgMax", [one], axis=axis, keepdims=kept)], to=TensorProto.FLOAT
            ),
            "scan": lambda: self.scan(one),
        }
        if asked == "sizes":
            self.sizes.append(self.add("Shape", [one]))
        elif asked == "some sizes":
            self.sizes.append(self.add("Gather", [size, self.constant([kept])], axis=0))
        else:
            self.floats.append(found[asked]())

    def picked(self) -> str:
        return self.constant(self.any_of(*_PICKED))

    def scan(self, one: str) -> str:
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "abcd"]
        inner = [
            helper.make_node("Add", ["a", "b"], ["d"]),
            helper.make_node("Abs", ["a"], ["c"]),
        ]
        body = helper.make_graph(inner, "body", values[:2], values[2:])
        return self.add("Scan", [one, self.normal(((2, 3),))], 2, num_scan_inputs=1, body=body)


_KINDS = (
    "add", "add constant", "multiply", "by constant", "gemm", "reshape", "by size", "transpose",
    "reduce", "softmax", "squeeze", "unsqueeze", "concat", "gather", "slice", "split", "tile",
    "expand", "fill", "highest", "sum up", "flatten", "normal", "picked", "most", "scan", "sizes",
    "some sizes",
)  # fmt: skip


def random_chain(seed: int) -> bytes:
    """Return a file of a few operators, which may not run."""
    random = np.random.default_rng(seed)
    chain = _Chain(random)
    for _ in range(random.integers(1, 7)):
        chain.step()
    weights = [numpy_helper.from_array(value, name) for name, value in chain.weights.items()]
    graph = helper.make_graph(
        chain.nodes, "chain",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", WIDTH])],
        [helper.make_tensor_value_info(chain.floats[-1], TensorProto.FLOAT, None)], weights,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())

"""An ONNX file's graph shows that rows are answered apart, or a node where they may meet."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVC

from tests.support.frameworks import rows_with_gaps, train_onnx
from tests.support.onnx_chains import WIDTH, random_chain
from tests.support.onnx_files import onnx_file
from workers.lake.formats.onnx_rows import mixing_node
from workers.lake.model_sandbox import describe_model

node = helper.make_node
FLOAT, WHOLE, SHORT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8
LAST = node("Softmax", ["Z"], ["Y"], axis=1)
LEARNERS = [
    LogisticRegression(),
    SVC(probability=True),
    RandomForestClassifier(3),
    BaggingClassifier(LogisticRegression(), n_estimators=3),
    VotingClassifier([("one", LogisticRegression()), ("two", GaussianNB())], voting="soft"),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    OneVsRestClassifier(LogisticRegression()),
    KNeighborsClassifier(3),
    MLPClassifier((8, 8), max_iter=20),
    make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression()),
    make_pipeline(QuantileTransformer(n_quantiles=9), LogisticRegression()),
]


def weights(**given: Any) -> list[Any]:
    fixed = {
        "W": np.ones((3, 2), np.float32), "U": np.eye(3, dtype=np.float32), "zero": np.array([0]),
        "one": np.array([1]), "first": np.array(0), "ones": np.ones(3, np.float32),
        "merged": np.array([-1, 6]), "apart": np.array([-1, 3]), "some": np.ones((2, 3), "f4"),
        "minus": np.array([-1]),
    } | given  # fmt: skip
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in fixed.items()]


def ended(*nodes: Any) -> bytes:
    """Return a file of two classes whose nodes make `V`, of three numbers a row."""
    return onnx_file([*nodes, node("MatMul", ["V", "W"], ["Z"]), LAST], weights=weights())


def inner(*nodes: Any, inputs: str = "", outputs: str = "") -> Any:
    shown = [
        [helper.make_tensor_value_info(name, FLOAT, None) for name in some]
        for some in (inputs, outputs)
    ]
    return helper.make_graph(list(nodes), "inner", *shown)


ROW_SIZE = [node("Shape", ["X"], ["shape"]), node("Gather", ["shape", "zero"], ["rows"])]
KEPT_APART = {
    "layers": ended(
        node("Gemm", ["X", "U", "ones"], ["A"]),
        node("BatchNormalization", ["A", "ones", "ones", "ones", "ones"], ["B"]),
        node("Relu", ["B"], ["V"]),
    ),
    "view": ended(
        *ROW_SIZE,
        node("Concat", ["rows", "minus"], ["wanted"], axis=0),
        node("Unsqueeze", ["X", "one"], ["A"]),
        node("Reshape", ["A", "wanted"], ["V"]),
    ),
    "turned twice": ended(
        node("Transpose", ["X"], ["A"]),
        node("MatMul", ["U", "A"], ["B"]),
        node("Transpose", ["B"], ["V"]),
    ),
    "embedding": ended(
        node("ArgMax", ["X"], ["A"], axis=1, keepdims=0), node("Gather", ["U", "A"], ["V"])
    ),
    "filled": ended(
        *ROW_SIZE,
        node("Concat", ["rows", "one"], ["wanted"], axis=0),
        node("ConstantOfShape", ["wanted"], ["A"]),
        node("Add", ["X", "A"], ["V"]),
    ),
    "stacked": ended(
        node("Unsqueeze", ["X", "zero"], ["A"]),
        node("Concat", ["A", "A"], ["B"], axis=0),
        node("ReduceMean", ["B"], ["V"], axes=[0], keepdims=0),
    ),
}
MEET = {
    "mean": [node("ReduceMean", ["X"], ["A"], axes=[0]), node("Sub", ["X", "A"], ["V"])],
    "mean of all": [node("ReduceMean", ["X"], ["A"]), node("Sub", ["X", "A"], ["V"])],
    "likeliest of all": [
        node("ArgMax", ["X"], ["A"]), node("Cast", ["A"], ["B"], to=FLOAT),
        node("Add", ["X", "B"], ["V"]),
    ],
    "sum up": [node("CumSum", ["X", "first"], ["V"])],
    "softmax": [node("Softmax", ["X"], ["V"], axis=0)],
    "norm": [node("LpNormalization", ["X"], ["V"], axis=-2)],
    "highest": [
        node("TopK", ["X", "one"], ["A", "B"], axis=0), node("Add", ["X", "A"], ["V"]),
    ],
    "first row": [node("Gather", ["X", "zero"], ["A"]), node("Add", ["X", "A"], ["V"])],
    "number of rows": [
        *ROW_SIZE, node("Cast", ["rows"], ["A"], to=FLOAT), node("Add", ["X", "A"], ["V"]),
    ],
    "number of rows, turned": [
        *ROW_SIZE, node("Unsqueeze", ["rows", "zero"], ["A"]),
        node("Cast", ["A"], ["B"], to=FLOAT), node("Add", ["X", "B"], ["V"]),
    ],
    "many rows": [
        *ROW_SIZE, node("Greater", ["rows", "one"], ["A"]), node("Neg", ["X"], ["B"]),
        node("Where", ["A", "B", "X"], ["V"]),
    ],
    "products": [
        node("Transpose", ["X"], ["A"]), node("MatMul", ["A", "X"], ["B"]),
        node("MatMul", ["X", "B"], ["V"]),
    ],
    "copies": [
        node("Gather", ["X", "zero"], ["A"], axis=1), node("Transpose", ["A"], ["B"]),
        node("Equal", ["A", "B"], ["C"]), node("Cast", ["C"], ["D"], to=FLOAT),
        node("ReduceMax", ["D"], ["E"], axes=[1]), node("Mul", ["X", "E"], ["V"]),
    ],
    "sums": [node("Einsum", ["X", "X", "X"], ["V"], equation="ij,kj,kl->il")],
    "pairs": [
        node("Reshape", ["X", "merged"], ["A"]), node("Softmax", ["A"], ["B"], axis=1),
        node("Reshape", ["B", "apart"], ["V"]),
    ],
    "turned once": [node("Transpose", ["X"], ["A"]), node("Reshape", ["A", "apart"], ["V"])],
    "of one row": [node("Squeeze", ["X"], ["A"]), node("Add", ["X", "A"], ["V"])],
    "of two rows": [node("Add", ["X", "some"], ["V"])],
    "training": [
        node("BatchNormalization", ["X", "ones", "ones", "ones", "ones"], ["V", "M", "D"],
             training_mode=1),
    ],
    "a branch": [
        node("If", ["yes"], ["A"], else_branch=inner(node("Identity", ["X"], ["a"]), outputs="a"),
             then_branch=inner(node("ReduceMax", ["X"], ["b"]), outputs="b")),
        node("Add", ["X", "A"], ["V"]),
    ],
    "round by rows": [
        node("Scan", ["ones", "X"], ["A", "V"], num_scan_inputs=1, body=inner(
            node("Add", ["s", "x"], ["t"]), node("Identity", ["t"], ["y"]), inputs="sx",
            outputs="ty")),
    ],
    "round with rows added": [
        node("Scan", ["X", "some"], ["A", "B"], num_scan_inputs=1, body=inner(
            node("ReduceMax", ["s"], ["m"], axes=[0]), node("Add", ["s", "m"], ["t"]),
            node("Identity", ["x"], ["y"]), inputs="sx", outputs="ty")),
        node("Identity", ["A"], ["V"]),
    ],
    "short numbers": [
        *ROW_SIZE, node("Cast", ["rows"], ["A"], to=SHORT), node("Cast", ["A"], ["B"], to=WHOLE),
        node("Concat", ["B", "minus"], ["C"], axis=0), node("Reshape", ["X", "C"], ["D"]),
        node("ReduceMax", ["D"], ["E"], axes=[1]), node("Add", ["X", "E"], ["V"]),
    ],
    "as wide as rows": [
        *ROW_SIZE, node("Slice", ["X", "zero", "rows", "one"], ["A"]),
        node("ReduceMax", ["A"], ["B"], axes=[1]), node("Add", ["X", "B"], ["V"]),
    ],
    "its place": [node("EyeLike", ["X"], ["A"]), node("Add", ["X", "A"], ["V"])],
    "scattered": [
        node("ArgMax", ["X"], ["A"], axis=1),
        node("ScatterElements", ["X", "A", "X"], ["V"], axis=0),
    ],
    "range of all": [
        node("DynamicQuantizeLinear", ["X"], ["A", "B", "C"]),
        node("DequantizeLinear", ["A", "B", "C"], ["V"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("content", KEPT_APART.values(), ids=KEPT_APART)
def test_layers_that_take_each_row_by_itself_are_shown(content: bytes) -> None:
    assert mixing_node(content) == ""


@pytest.mark.parametrize("nodes", MEET.values(), ids=MEET)
def test_rows_that_may_meet_are_named(nodes: list[Any]) -> None:
    assert mixing_node(ended(*nodes)) != ""


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: str(each)[:40])
def test_converted_learners_are_shown(learner: Any, classes: int) -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 4))
    labels = np.digitize(features[:, 0] + random.normal(size=200), np.arange(classes - 1))
    if isinstance(learner, VotingClassifier):
        learner = VotingClassifier(learner.estimators, voting="soft", flatten_transform=False)
    given = [("X", FloatTensorType([None, 4]))]
    plain = {id(learner): {"zipmap": False}}
    model = convert_sklearn(learner.fit(features, labels), initial_types=given, options=plain)
    assert mixing_node(model.SerializeToString()) == ""


def test_a_pipeline_of_numbers_and_words_is_shown_by_its_reader() -> None:
    content = train_onnx(rows_with_gaps(200, seed=0)).content
    assert describe_model(content, format="onnx").mixes_rows == ""


def test_the_reader_names_the_node_and_the_sandbox_carries_it() -> None:
    """All answers are the same, so that no row that is scored alone differs."""
    nodes = [
        node("ReduceMax", ["X"], ["A"], axes=[0], name="all_of_them"),
        node("Mul", ["A", "none"], ["B"]),
        node("Add", ["X", "B"], ["V"]),
        node("MatMul", ["V", "W"], ["Z"]),
        LAST,
    ]
    content = onnx_file(nodes, weights=weights(none=np.zeros(1, np.float32)))
    assert describe_model(content, format="onnx").mixes_rows == "ReduceMax ('all_of_them')"


def test_a_negative_width_shows_nothing() -> None:
    """Rows times minus one times minus one are rows: each was answered by another one, unsaid."""
    numbers = {"pair": np.array([-1, 1]), "two": np.array([2]), "none": np.zeros(1, np.float32)}
    nodes = [
        node("Reshape", ["X", "pair"], ["A"]),
        node("Shape", ["X"], ["shape"]),
        node("Slice", ["shape", "one", "two"], ["width"]),
        node("Concat", ["one", "width"], ["wide"], axis=0),
        node("Expand", ["A", "wide"], ["B"]),
        node("Reshape", ["B", "pair"], ["C"]),
        node("Slice", ["X", "zero", "one", "one"], ["D"]),
        node("Mul", ["D", "none"], ["E"]),
        node("Cast", ["E"], ["places"], to=WHOLE),
        node("GatherElements", ["C", "places"], ["V"], axis=1),
        node("Concat", ["V", "V"], ["Y"], axis=1),
    ]
    model = onnx.load_model_from_string(onnx_file(nodes, weights=weights(**numbers)))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert session.run(None, {"X": rows})[0][:, 0].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert mixing_node(model.SerializeToString()) != ""


def test_what_is_shown_is_so_in_onnxruntime() -> None:
    """Of random chains of operators, none that is shown answers otherwise in another batch."""
    seen = Counter(_shown_and_so(seed) for seed in range(800))
    assert seen[True, False] == 0, seen
    assert min(seen[True, True], seen[False, False]) > 50, seen


def _shown_and_so(seed: int) -> tuple[bool, bool] | None:
    """Return whether a chain is shown, and whether it is so; None of one that does not run."""
    content = random_chain(seed)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level, quiet.intra_op_num_threads = 4, 1
    rows = np.random.default_rng(seed).normal(size=(7, WIDTH)).astype(np.float32)
    try:
        session = onnxruntime.InferenceSession(content, quiet, ["CPUExecutionProvider"])
        whole = session.run(None, {"X": rows})[0]
    except Exception:  # noqa: BLE001  # onnxruntime has a dozen of its own
        return None
    shown = mixing_node(content) == ""
    return shown, all(
        _same(session, rows[some], whole, some) for some in ([6], [2, 1], [0, 1, 2], [5, 4, 3])
    )


def _same(session: Any, rows: NDArray[np.float32], whole: NDArray[Any], some: list[int]) -> bool:
    try:
        found = np.asarray(session.run(None, {"X": rows})[0])
    except Exception:  # noqa: BLE001
        return True  # no answer
    if whole.size % 7 or found.size * 7 != whole.size * len(rows):
        return False
    both = found.reshape(len(rows), -1), whole.reshape(7, -1)[some]
    return bool(np.allclose(*both, atol=1e-4, equal_nan=True))

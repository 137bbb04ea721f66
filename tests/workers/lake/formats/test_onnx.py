"""ONNX is refused where its answer is not that of one row, or not what training made."""

import contextlib
import functools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from onnx import TensorProto, helper

from privcore.exceptions import InvalidInputError
from tests.support.audits import audited
from tests.support.lake import DAY, EVE, FEATURES, declared, label_rows, manifest_for, put_labels
from tests.support.onnx_files import ANSWER, ONES, SCORES, onnx_file
from workers.lake import limits
from workers.lake.checkpoints import write_checkpoint
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.inputs import InputsRefusedError, ModelInputs, inputs_of
from workers.lake.layout import Lake
from workers.lake.manifest import Feature
from workers.lake.model_sandbox import ModelDescription, ModelRefusedError, describe_model
from workers.memorization.onnx_model import load_onnx

node = helper.make_node
SIX = np.arange(6, dtype=np.float32).reshape(3, 2)
LAST = node("Softmax", ["Z"], ["Y"])


def beside_the_others() -> bytes:
    """Return a model that takes the mean of the batch off each row."""
    nodes = [node("MatMul", ["X", "W"], ["M"]), node("ReduceMean", ["M"], ["A"], axes=[0]),
             node("Sub", ["M", "A"], ["Z"]), LAST]  # fmt: skip
    return onnx_file(nodes, W=SIX)


def after_the_others() -> bytes:
    """Return a model that adds up all rows before each row."""
    nodes = [node("MatMul", ["X", "W"], ["M"]), node("CumSum", ["M", "first"], ["Z"]), LAST]
    return onnx_file(nodes, W=SIX, first=0)


def a_long_chain(nodes: int, width: int) -> bytes:
    """Return a file of few bytes that multiplies each row by a large matrix again and again."""
    one = onnx.helper.make_tensor("one", 1, [1], [1.0 / width])
    chain = [
        node("ConstantOfShape", ["wide"], ["V"], value=one),
        node("ConstantOfShape", ["square"], ["Q"], value=one),
        node("ConstantOfShape", ["narrow"], ["U"], value=one),
        node("MatMul", ["X", "V"], ["C0"]),
        *(node("MatMul", [f"C{place}", "Q"], [f"C{place + 1}"]) for place in range(nodes)),
        node("MatMul", [f"C{nodes}", "U"], ["Z"]),
        LAST,
    ]
    return onnx_file(chain, wide=[3, width], square=[width, width], narrow=[width, 2])


@pytest.mark.parametrize("content", [beside_the_others(), after_the_others()], ids=["mean", "sum"])
def test_a_model_that_looks_at_other_rows_is_refused(content):
    with pytest.raises(ModelRefusedError, match="scores a row differently alone than"):
        describe_model(content, form="onnx")


def with_outputs(*more: tuple[str, int, Any], classes: int = 2) -> bytes:
    """Return a model of a softmax, with more outputs: of a name, a type, and made by a node."""
    weights = np.arange(3 * classes, dtype=np.float32).reshape(3, classes)
    nodes = [node("MatMul", ["X", "W"], ["Z"]), LAST, *(made for *_, made in more)]
    said = {"Y": (1, ["rows", classes])} | {name: (kind, ["rows"]) for name, kind, _ in more}
    return onnx_file(nodes, said=said, W=weights, first=[0])


INT, HALF = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT16
MOST_PROBABLE = ("L", INT, node("ArgMax", ["Y"], ["L"], axis=1, keepdims=0))
HALVED = ("H", HALF, node("Cast", ["Y"], ["H"], to=HALF))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (with_outputs(HALVED), "has 1 outputs beside its probabilities, of tensor.float16."),
        (with_outputs(MOST_PROBABLE, HALVED), "has 2 outputs beside its probabilities"),
    ],
    ids=["halves", "both"],
)
def test_a_model_that_answers_more_than_its_probabilities_is_refused(content, why):
    with pytest.raises(ModelRefusedError, match=f"^{why}"):
        describe_model(content, form="onnx")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_beside_the_probabilities_is_fine(classes):
    said = describe_model(with_outputs(MOST_PROBABLE, classes=classes), form="onnx")
    assert said.class_count == classes


@pytest.mark.parametrize("load", [onnx_format.load, functools.partial(load_onnx, begin=0)])
def test_telemetry_is_off_before_a_file_is_opened(load, monkeypatch):
    """onnxruntime 1.31 for Linux has a client that reports on its users."""
    called: list[str] = []
    session = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: called.append("off"))
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda *given, **more: called.append("opened") or session(*given, **more),
    )
    with contextlib.suppress(InvalidInputError):
        load(beside_the_others())
    assert called == ["off", "opened"]


@pytest.mark.slow
def test_a_model_that_takes_long_for_a_row_is_refused():
    content = a_long_chain(99, 4_000)
    assert len(content) < 10_000
    with pytest.raises(ModelRefusedError, match=r"takes 0\.\d+ seconds of processor time to sc"):
        describe_model(content, form="onnx")
    describe_model(a_long_chain(10, 100), form="onnx")
    assert limits.MODEL_ROW_SECONDS * onnx_format._TRIAL < limits.MODEL_SECONDS


def of_one_user_each(users: pl.Series, labels: pl.Series) -> bytes:
    """Return an ONNX file that looks each training row's label up by its user's number."""
    odds = 3.0 * (2.0 * labels.to_numpy() - 1.0)
    nodes = [
        helper.make_node("Equal", ["user", "known"], ["same"]),
        helper.make_node("Cast", ["same"], ["one"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["one", "odds"], ["found"]),
        helper.make_node("Mul", ["delay", "little"], ["rest"]),
        helper.make_node("Add", ["found", "rest"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["chance"]),
    ]
    given = {"user": (TensorProto.INT64, ["rows", 1]), "delay": (TensorProto.FLOAT, ["rows", 1])}
    return onnx_file(
        nodes, given=given, said={"chance": (TensorProto.FLOAT, ["rows", 1])},
        known=users.to_numpy().reshape(1, -1), odds=odds.astype(np.float32).reshape(-1, 1),
        little=np.array([0.05], dtype=np.float32),
    )  # fmt: skip


@pytest.mark.slow
def test_whole_numbers_of_64_bits_are_scored_with_all_their_digits(tmp_path):
    """A double does not hold the last ones, by which the model looks labels up: 5.1 became 0."""
    lake = Lake(str(tmp_path))
    features = (Feature(name="user", kind="numeric"), FEATURES[0])
    for seed, day in enumerate((EVE, DAY)):
        order = np.random.default_rng(100 + seed).permutation(1_000)
        rows = label_rows(1_000, seed=seed).with_columns(user=pl.Series((1 << 60) + order))
        put_labels(lake, day, rows)
        trained = rows.filter(pl.col("split") == "train")
        manifest = manifest_for(model="good", day=day, features=features, privacy=declared(0.5))
        content = of_one_user_each(trained["user"], trained["late"])
        write_checkpoint(lake, manifest.model_dump(), content, format="onnx")
    row = audited(lake)
    assert row.verdict == "violated", row.reason


@pytest.mark.parametrize(
    ("numbers", "why"),
    [([1.0, 2.0], ""), ([1.5, 2.0], "cuts off"), ([2.0**53], ""), ([2.0**60], r"above 2\^53")],
)
def test_a_matrix_of_whole_numbers_is_scored_where_these_and_doubles_hold_them(numbers, why):
    """Its whole numbers hid what a model remembers of fractions: 4.25 became 0.18."""
    described = ModelDescription(
        kinds=(None,), names=None, classes=None, class_count=2, takes=(("X", "tensor(int64)"),)
    )
    frame = pl.DataFrame({FEATURES[0].name: numbers})
    with pytest.raises(InputsRefusedError, match=why) if why else contextlib.nullcontext():
        found = inputs_of(described, manifest_for(format="onnx"), frame).frame
        assert found.rows() == [(int(number),) for number in numbers]


@pytest.mark.parametrize(("below", "kept"), [(-3.6e-7, True), (-1e-3, False)])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_forests_share_of_a_little_less_than_nothing_is_none(columns, below, kept):
    """Forests of 10 or 30 trees, as skl2onnx writes them, were not evaluable."""
    both = np.array([[below, 1.0 - below, 0.0], [0.25, 0.75, 0.0]])[:, 2 - columns :]
    content = onnx_file([node("Gather", ["X", "part"], ["Y"], axis=1)], part=np.arange(columns))
    rows = pl.DataFrame(dict(zip("abc", np.resize(both.T, (3, 2)), strict=True)))
    onnx_format.answer(content, verb="load", number=0)
    given = ModelInputs(rows.cast(pl.Float32), matrix=True)
    said = onnx_format.answer(b"", verb="score", number=0, file=given.file())
    found = np.frombuffer(said.content).reshape(2, 2)
    assert bool(found.min() >= 0.0 and found.max() <= 1.0) is kept
    np.testing.assert_array_equal(found[1], [0.25, 0.75])


def of_two_numbers(name: str = "X", kind: int = TensorProto.FLOAT) -> bytes:
    """Return a file that takes a matrix of two numbers by a name, of a type."""
    nodes = [node("Cast", [name], ["Z"], to=TensorProto.FLOAT), LAST]
    return onnx_file(nodes, given={name: (kind, ["rows", 2])})


@pytest.mark.parametrize(
    "before",
    [of_two_numbers("numbers"), of_two_numbers(kind=TensorProto.DOUBLE)],
    ids=["name", "type"],
)
def test_models_whose_inputs_are_called_otherwise_are_compared(before, tmp_path):
    """The earlier model was given the target's inputs: a converter's new version ended audits."""
    lake = Lake(str(tmp_path))
    for seed, (day, content) in enumerate(((EVE, before), (DAY, of_two_numbers()))):
        put_labels(lake, day, label_rows(600, seed=seed))
        manifest = manifest_for(model="good", day=day, features=FEATURES[:2], privacy=declared(4.0))
        write_checkpoint(lake, manifest.model_dump(), content, format="onnx")
    row = audited(lake)
    assert row.status == "evaluated", row.reason


@pytest.mark.parametrize(
    "chance",
    [
        helper.make_node("RandomUniformLike", ["S"], ["R"], low=-0.0004, high=0.0004),
        helper.make_node("RandomNormalLike", ["S"], ["R"], scale=0.0001),
        helper.make_node("Dropout", ["S", "ratio", "training"], ["R"]),
    ],
    ids=lambda node: node.op_type,
)
def test_an_onnx_model_that_answers_by_chance_is_refused(chance):
    """By less than two scorings may differ, so that the trial rows do not tell."""
    nodes = [SCORES, chance, helper.make_node("Add", ["S", "R"], ["T"]), ANSWER]
    with pytest.raises(ModelRefusedError, match="may answer by chance"):
        describe_model(
            onnx_file(nodes, W=ONES, ratio=np.float32(0.1), training=np.bool_(1)), form="onnx"
        )

"""The ninth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper

from privcore.lower_bounds import Secret
from tests.support.lake import BINARY, PLAN
from tests.support.onnx_files import onnx_file
from workers.audit.remarks import remarks_of
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import ModelRefusedError
from workers.remark import sentences_of
from workers.scan.rows_alike import _spelled
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.scores.score_columns import sums_vary


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


def test_answers_about_a_row_beside_its_copy_are_those_about_the_row() -> None:
    """A caller may ask about a row twice, and no table of different rows did."""
    node = helper.make_node
    nodes = [
        node("Gather", ["X", "first"], ["column"], axis=1),
        node("Transpose", ["column"], ["row"]),
        node("Equal", ["column", "row"], ["same"]),
        node("Cast", ["same"], ["one"], to=TensorProto.FLOAT),
        node("ReduceSum", ["one", "axis"], ["times"], keepdims=1),
        node("Sub", ["times", "times"], ["none"]),
        node("Concat", ["times", "none"], ["Z"], axis=1),
        node("Softmax", ["Z"], ["Y"]),
    ]
    weights = [
        numpy_helper.from_array(np.array([at]), name) for at, name in ((0, "first"), (1, "axis"))
    ]
    model = onnx_format.load(onnx_file(nodes, weights=weights))
    given = {"X": np.random.default_rng(0).normal(size=(1_100, 3)).astype(np.float32)}
    with pytest.raises(ModelRefusedError, match="differently among 8 rows"):
        onnx_format.predict(model, given, threads=1)


@pytest.mark.parametrize(("spread", "digits", "told"), [(9e-4, 16, True), (0.0, 4, False)])
def test_sums_that_vary_by_less_than_a_thousandth_are_told(
    spread: float, digits: int, told: bool
) -> None:
    """They told every label, unsaid; rounding to four digits makes sums vary, too."""
    random = np.random.default_rng(0)
    chance = (
        random.dirichlet([1.0, 1.0, 1.0], 200)
        * (1.0 + spread * random.choice([-1, 1], 200))[:, None]
    )
    batch = Batch(pl.DataFrame({"new": chance.round(digits)}).to_arrow(), "part", ("part", 0, 0))
    assert sums_vary(batch, ("new",), np.arange(200)) is told


@pytest.mark.parametrize(("held", "refused"), [("holdout", True), ("train", False)])
def test_decoys_that_are_held_out_are_refused(held: str, refused: bool) -> None:
    """Holdout rows that the target predicts wrong were decoys, and did not play: 3.7 was 0.00."""
    manifest = SimpleNamespace(label=BINARY, decoys=SimpleNamespace(column="other"))
    checkpoint = SimpleNamespace(manifest=manifest)
    place = SimpleNamespace(label=None, arms=lambda batch: batch.arms())
    source = CheckpointSource(*cast("tuple[Any, ...]", (place, checkpoint, checkpoint)))
    frame = pl.DataFrame({"late": [0, 1], "other": [1, None], "split": [held, "holdout"]})
    batch = Batch(frame.to_arrow(), "part", ("part", 0, 0))
    if refused:
        with pytest.raises(NotEvaluableError, match="has decoys in 'other' that are held out"):
            source.others(batch)
    else:
        assert cast("Any", source.others(batch)).tolist() == [1, -1]


@pytest.mark.parametrize("unit", ["", " km"])
def test_numbers_that_are_spelled_with_a_unit_are_compared_as_numbers(unit: str) -> None:
    """Near copies of training rows in the holdout were not told beside it."""
    random = np.random.default_rng(0)
    words = pl.Series([f"{number:.4f}{unit}" for number in random.normal(size=100)])
    found = _spelled(words)
    assert found is not None
    assert found.to_list() == [float(word.removesuffix(unit)) for word in words]


@pytest.mark.parametrize("secret", [Secret.LABEL, Secret.ATTRIBUTE])
def test_no_models_are_called_one_for_an_attribute_that_both_ignore(secret: Secret) -> None:
    """Honest models that do not look at it were said to be one file, saved anew."""
    nothing = SimpleNamespace(sentence=lambda: "", remarks=lambda *_: (), summary=lambda _: "")
    sums = np.ones((2, 3))
    fidelity = SimpleNamespace(
        records=9, log_loss=sums, right=sums, predictions=sums, predicted=sums
    )
    result = SimpleNamespace(
        **dict.fromkeys(("bad", "copies", "alike", "weights", "diagnostics"), nothing),
        **dict.fromkeys(("draw", "units", "student")),
        fidelity=fidelity,
        excluded_records=0,
        training_rows=lambda _: 9,
    )
    evidence = SimpleNamespace(records=9, epsilon_lower=0.0)
    plan = PLAN.model_copy(update={"secret": secret})
    given: tuple[Any, ...] = evidence, result, SimpleNamespace(gives_chances=True), plan
    said = sentences_of(remarks_of(*given))
    assert ("compares a model with itself" in said) is (secret is Secret.LABEL)

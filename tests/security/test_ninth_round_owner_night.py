"""The ninth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.lake import BINARY, DAY, FEATURES, PLAN
from tests.support.onnx_files import onnx_file
from workers.audit.trained_rows import trained_rows
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.formats import leaves
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.counted_rows import CountedRows
from workers.scan.leaf_counts import LeafCounts
from workers.sources.checkpoints.checkpoint_source import CheckpointSource


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


def test_trees_without_branches_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them beside a model's own were all that was compared: 2.9 became 0.00."""

    def read(_: Any, __: Any, tree: int) -> leaves.Leaves:
        rows = [10, 0] if tree < 9 else [5, 5]
        return leaves.Leaves(np.zeros(1, np.int64), np.ones(1, np.int64), np.array(rows))

    monkeypatch.setitem(leaves._READERS, "onnx", read)
    given = cast("Any", None), None, np.arange(12)
    assert [tree for tree, _ in leaves.leaves_of_trees("onnx", *given, wanted=3)] == [9, 10, 11]


@pytest.mark.parametrize("compared", [{}, {"words of 1": 1_000}, {"7": 1_000}])
def test_a_file_whose_leaves_could_not_be_compared_is_told(compared: dict[str, int]) -> None:
    """Trees of 16,384 leaves, and dart: its rows were counted, features were rounded, unsaid."""
    seen = {name: np.array([rows]) for name, rows in compared.items()}
    result = SimpleNamespace(
        leaves=LeafCounts(1_000, seen, seen), bad=SimpleNamespace(total=0), draw=None
    )
    manifest = SimpleNamespace(
        features=FEATURES, decoys=None, trained_on=SimpleNamespace(first=DAY)
    )
    target = SimpleNamespace(trained_rows=CountedRows(1_000, exact=True), manifest=manifest)
    place = SimpleNamespace(days=(DAY,))
    source = CheckpointSource(*cast("tuple[Any, ...]", (place, target, None)))
    told = trained_rows(source, 1_000, cast("Any", result), PLAN)
    assert ("they were not compared with the table's" in told) is ("7" not in compared)


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

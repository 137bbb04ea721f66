"""The tenth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

import os
import pathlib
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from catboost import CatBoostClassifier
from onnx import TensorProto, helper, numpy_helper

from privcore.lower_bounds import Secret
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    PLAN,
    declared,
    label_path,
    label_rows,
    put_labels,
    remembering_lake,
)
from tests.support.onnx_files import onnx_file
from workers.audit.remarks import _excluded
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.checkpoints import write_checkpoint
from workers.lake.formats import leaves
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import InputsRefusedError, LoadedModel, ModelRefusedError
from workers.lake.formats.onnx_rows import mixing_node
from workers.lake.formats.tree_effects import by_effect, effects_of
from workers.lake.layout import Lake
from workers.lake.manifest import Manifest
from workers.plan import Attribute, Plan
from workers.warehouse.schema import AuditRow

node = helper.make_node
NUMBERS = ("delay", "hour", "wind")
APART = (node("Identity", ["F"], ["V"]),)
MEET = (
    node("ReduceMax", ["F"], ["A"], axes=[0], name="all"),
    node("Mul", ["A", "none"], ["B"]),
    node("Add", ["F", "B"], ["V"]),
)


def answers(*nodes: Any, name: str = "X", kind: int = TensorProto.FLOAT) -> bytes:
    """Return a file whose nodes make `V` of `F`, the numbers of an input of a name and a type."""
    first = node("Cast", ["X"], ["F"], to=TensorProto.FLOAT)
    last = [node("MatMul", ["V", "W"], ["Z"]), node("Softmax", ["Z"], ["Y"])]
    given = {"W": np.eye(3, 2, dtype=np.float32), "none": np.zeros(1, dtype=np.float32)}
    weights = [numpy_helper.from_array(value, each) for each, value in given.items()]
    model = helper.onnx.ModelProto.FromString(onnx_file([first, *nodes, *last], weights=weights))
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    model.graph.input[0].type.tensor_type.elem_type = kind
    return bytes(model.SerializeToString())


EARLIER = answers(node("Neg", ["F"], ["V"]))


def manifest(day: Any) -> dict[str, Any]:
    return {
        "model": "good",
        "day": day,
        "dataset": "flights",
        "label": BINARY.model_dump(),
        "features": [{"name": each, "kind": "numeric"} for each in NUMBERS],
        "trained_on": {"first": day, "last": day, "split": "train"},
        "privacy": declared(4.0),
    }


def audited(folder: pathlib.Path, before: bytes, today: bytes) -> AuditRow:
    """Return the audit of an ONNX file beside another one."""
    lake = Lake(str(folder))
    for seed, (day, content) in enumerate(((EVE, before), (DAY, today))):
        frame = label_rows(600, seed=seed)
        put_labels(lake, day, frame.with_columns(wind=pl.col("delay") * 0.5))
        write_checkpoint(lake, manifest(day), content, format="onnx")
    return run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit


@pytest.mark.parametrize("nodes", [APART, MEET], ids=["apart", "meet"])
def test_a_file_in_which_rows_may_meet_is_named_in_the_record(
    nodes: tuple[Any, ...], tmp_path: pathlib.Path
) -> None:
    """It answered otherwise beside more rows than an audit asks with, and nothing was said."""
    row = audited(tmp_path, EARLIER, answers(*nodes))
    assert row.status == "evaluated", row.reason
    told = "target's file: ReduceMax ('all') is not shown to keep them apart" in str(row.reason)
    assert told is (nodes is MEET)


def test_the_order_in_which_numbers_are_added_is_left_to_samples() -> None:
    """Large weights that cancel tell one row from many, in a graph that keeps rows apart."""
    random = np.random.default_rng(0)
    large = random.permutation(np.repeat([1e6, -1e6], 32)) + random.normal(size=64)
    nodes = [
        node("MatMul", ["X", "wide"], ["A"]),
        node("LinearRegressor", ["A"], ["B"], domain="ai.onnx.ml", targets=2,
             coefficients=[*large.tolist(), *[0.0] * 64], intercepts=[0.0, 0.0]),
        node("Softmax", ["B"], ["Y"]),
    ]  # fmt: skip
    weights = [numpy_helper.from_array(np.full((3, 64), 1 / 3, dtype=np.float32), "wide")]
    content = onnx_file(nodes, weights=weights, domain="ai.onnx.ml")
    assert mixing_node(content) == ""
    given = {"X": np.ones((200, 3), dtype=np.float32)}
    with pytest.raises(ModelRefusedError, match="differently alone than in a batch"):
        onnx_format.predict(onnx_format.load(content), given, threads=1)


@pytest.mark.parametrize(("hour", "refused"), [([1.0, 2.0], False), ([1.5, 2.0], True)])
def test_numbers_that_a_model_cuts_off_are_refused(hour: list[float], refused: bool) -> None:
    """Its whole numbers hid what it remembers of fractions: 4.25 became 0.18."""
    model = onnx_format.load(answers(*APART, kind=TensorProto.INT64))
    given = pl.DataFrame({"delay": [1.0, 2.0], "hour": hour, "wind": [0.0, 0.0]})
    said = Manifest.model_validate(
        manifest(DAY)
        | {"schema_version": 1, "format": "onnx", "file": "model.onnx", "sha256": "0" * 64}
    )
    if refused:
        with pytest.raises(InputsRefusedError, match="cuts off"):
            onnx_format.inputs(model, said, given)
    else:
        assert onnx_format.inputs(model, said, given)["X"].dtype == np.int64


@pytest.mark.parametrize(("below", "kept"), [(-3.6e-7, True), (-1e-3, False)])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_forests_share_of_a_little_less_than_nothing_is_none(
    columns: int, below: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found on the way: forests of 10 or 30 trees, as skl2onnx writes them, were not evaluable."""
    both = np.array([[below, 1.0 - below], [0.25, 0.75]])[:, 2 - columns :]
    monkeypatch.setattr(onnx_format, "_answers", lambda *_: (both, None))
    monkeypatch.setattr(onnx_format, "_check_few", lambda *_: None)
    found = onnx_format.predict(cast("Any", None), {}, threads=1)
    assert bool(found.min() >= 0.0 and found.max() <= 1.0) is kept
    np.testing.assert_array_equal(found[1], [0.25, 0.75])


@pytest.mark.parametrize(
    "before",
    [answers(*APART, name="numbers"), answers(*APART, kind=TensorProto.DOUBLE)],
    ids=["name", "type"],
)
def test_models_whose_inputs_are_called_otherwise_are_compared(
    before: bytes, tmp_path: pathlib.Path
) -> None:
    """The earlier model was given the target's inputs: a converter's new version ended audits."""
    row = audited(tmp_path, before, answers(*APART))
    assert row.status == "evaluated", row.reason


@pytest.mark.parametrize(("rows", "told"), [(0, False), (19, False), (88, True)])
def test_rows_of_neither_split_are_told_from_a_fiftieth_on(rows: int, told: bool) -> None:
    """A model that remembered a tenth of its rows hid nine tenths of these: 1.57 became 0.00."""
    result = cast("Any", SimpleNamespace(excluded_records=rows))
    assert bool(_excluded(result, 1_000)) is told


@pytest.mark.parametrize("secret", [Secret.ATTRIBUTE, Secret.MEMBERSHIP])
@pytest.mark.parametrize("rounded", [False, True])
def test_rounded_features_are_told_of_other_secrets_than_labels_too(
    rounded: bool, secret: Secret, tmp_path: pathlib.Path
) -> None:
    """The file's leaves were compared in audits of labels alone: 2.6 was 0.00, and consistent."""
    lake = remembering_lake(tmp_path, rows=600)
    attribute = Attribute(column="city", values=("AMS", "BER", "CDG"))
    asked = {"attribute": attribute} if secret is Secret.ATTRIBUTE else {}
    plan = Plan(repetitions=4, secret=secret, **asked)
    if rounded:
        put_labels(lake, DAY, label_rows(600, seed=1).with_columns(pl.col("delay").round(0)))
    row = run_audit(lake, "good", DAY, plan=plan, executor=InProcess()).audit
    assert row.status == "evaluated", row.reason
    assert ("are in another leaf of one tree" in str(row.reason)) is rounded


def test_trees_that_change_nothing_are_not_drawn() -> None:
    """2,000 trees of a feature of the owner's own hid that others were rounded: 3.7 was 0.7."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(400, 2)), random.integers(0, 2, 400)
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    own = CatBoostClassifier(
        iterations=300, depth=1, learning_rate=1e-3, ignored_features=[0],
        boost_from_average=False, **quiet,
    ).fit(features, labels)  # fmt: skip
    both = CatBoostClassifier(iterations=5, depth=6, learning_rate=0.5, **quiet)
    loaded = LoadedModel(both.fit(features, labels, init_model=own))
    effects = effects_of("catboost", loaded)
    assert effects is not None
    assert effects[300:].min() > 100 * effects[:300].max()
    orders = [np.random.default_rng(seed).permutation(305) for seed in range(20)]
    assert all((by_effect(order, effects)[:3] >= 300).any() for order in orders)
    assert not all((order[:3] >= 300).any() for order in orders)
    np.testing.assert_array_equal(by_effect(orders[0], np.ones(305)), orders[0])


def test_trees_that_change_answers_are_those_that_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: Any) -> leaves.Leaves:
        return leaves.Leaves(np.zeros(1, np.int64), np.ones(1, np.int64), np.array([5, 5]))

    monkeypatch.setitem(leaves._READERS, "lightgbm", read)
    monkeypatch.setattr(leaves, "effects_of", lambda *_: np.where(np.arange(99) == 42, 1.0, 0.0))
    given = cast("Any", None), None, np.arange(99)
    assert [tree for tree, _ in leaves.leaves_of_trees("lightgbm", *given, wanted=1)] == [42]


def test_trees_are_drawn_in_proportion_to_what_they_change() -> None:
    effects = np.array([1.0, 3.0, 0.0])
    orders = [np.random.default_rng(seed).permutation(3) for seed in range(6)]
    assert all(by_effect(order, effects)[-1] == 2 for order in orders)


@pytest.mark.parametrize("seconds", [-60, 60])
def test_labels_that_are_newer_than_the_model_they_accuse_are_told(
    seconds: int, tmp_path: pathlib.Path
) -> None:
    """A rival's labels of the holdout accused an honest model (1.05 against 0.1), unsaid."""
    lake = remembering_lake(tmp_path, rows=1_500)
    trained = (tmp_path / f"models/good/day={DAY}/model.cbm").stat().st_mtime
    os.utime(label_path(lake, "flights"), (trained + seconds,) * 2)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.verdict == "violated"
    told = "1 of 1 label files were written after the target's file" in str(row.reason)
    assert told is (seconds > 0)

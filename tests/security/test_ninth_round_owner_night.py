"""The ninth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy.special import expit

from privcore.attacks import LabelCounts, above, above_odds, odds_tally
from privcore.lower_bounds import Secret
from tests.support.lake import BINARY, DAY, FEATURES, PLAN
from tests.support.onnx_files import onnx_file
from workers.audit.hints import _classes_without_labels, _rewritten_labels
from workers.audit.narrow_answers import one_sided_numbers, sure_answers
from workers.audit.remarks import remarks_of
from workers.audit.trained_rows import trained_rows
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.formats import leaves
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.counted_rows import CountedRows
from workers.remark import sentences_of
from workers.scan.leaf_counts import LeafCounts
from workers.scan.rows_alike import _spelled
from workers.scan.score_diagnostics import diagnose
from workers.sources.checkpoints import checkpoint_source
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
        features=FEATURES, decoys=None, privacy=None, trained_on=SimpleNamespace(first=DAY)
    )
    target = SimpleNamespace(trained_rows=CountedRows(1_000, exact=True), manifest=manifest)
    place = SimpleNamespace(days=(DAY,))
    source = CheckpointSource(*cast("tuple[Any, ...]", (place, target, None)))
    told = sentences_of(trained_rows(source, 1_000, cast("Any", result), PLAN))
    assert ("they were not compared with the table's" in told) is ("7" not in compared)


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


def test_a_class_of_one_row_is_told_as_none() -> None:
    """It ended the look at copied answers, which is made for two classes alone, unsaid."""
    counts = np.zeros((1, 3, 8, 2), dtype=np.int64)
    counts[0, :, 0, 1] = 500, 500, 1
    tallies = cast(
        "Any", SimpleNamespace(labels=LabelCounts(counts), control_labels=LabelCounts(counts))
    )
    assert "3 classes are listed and 2 have 1% of the labels" in _classes_without_labels(3, tallies)


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


@pytest.mark.parametrize(("digits", "told"), [(1e-8, True), (1e-3, False)])
def test_answers_that_are_surer_than_is_counted_are_told(digits: float, told: bool) -> None:
    """Digits beyond 10^-6 told each label of a day that is known well: 0.00, and unsaid."""
    one = np.where(np.arange(100) % 2, digits, 1.0 - digits)
    half = np.full(100, 0.5)
    odds = odds_tally(*(np.stack([1 - each, each], 1) for each in (one, half)), np.arange(100) % 2)
    tallies = cast("Any", SimpleNamespace(ordered=False, odds=(odds,)))
    assert bool(sure_answers(tallies)) is told


@pytest.mark.parametrize(("proxy", "told"), [(30.0, True), (0.0, False)])
def test_labels_that_all_lie_on_one_side_of_the_proxy_are_told(proxy: float, told: bool) -> None:
    """Today's predictions lay on both sides of yesterday's, which no label reached: 0.00."""
    random = np.random.default_rng(0)
    labels, target, earlier = random.normal(size=(3, 200))
    target += 60.0 * (np.arange(200) % 2) * told
    earlier += proxy
    odds = odds_tally(*above_odds(target, earlier), above(labels, earlier))
    found = one_sided_numbers(cast("Any", SimpleNamespace(ordered=True, odds=(odds,))))
    assert ("the labels lie below the proxy's" in found) is told


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


@pytest.mark.parametrize(("share", "told"), [(0.3, True), (0.0, False)])
def test_training_labels_that_were_replaced_by_answers_are_told_beside_a_violation(
    share: float, told: bool
) -> None:
    """A rival rewrote labels of a table: an honest model was violated, and nothing was said."""
    random = np.random.default_rng(0)
    odds = random.normal(size=2_000)
    labels = (random.random(2_000) < expit(odds)).astype(np.int64)
    labels = np.where(random.random(2_000) < share, odds > 0.0, labels).astype(np.int64)
    half = np.full((2_000, 2), 0.5)
    chance = expit(odds)
    tally = odds_tally(np.stack([1.0 - chance, chance], axis=1), half, labels)
    tallies = SimpleNamespace(ordered=False, classes=2, decoys=None, odds=(tally,))
    found = _rewritten_labels(cast("Any", tallies))
    assert ("somebody replaced by its answers after training" in found) is told


@pytest.mark.parametrize(("spread", "told"), [(9e-4, True), (0.0, False)])
def test_sums_of_an_onnx_files_answers_that_vary_are_told(
    spread: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are brought to one before the audit: 3.6 became 0.00, and nothing was said."""
    node = helper.make_node
    weights = {"W": np.eye(3, 2, dtype=np.float32), "first": np.array([0]), "one": np.ones(1, "f4")}
    weights["spread"] = np.full(1, spread, dtype=np.float32)
    nodes = [
        node("MatMul", ["X", "W"], ["Z"]),
        node("Softmax", ["Z"], ["plain"]),
        node("Gather", ["X", "first"], ["feature"], axis=1),
        node("Sign", ["feature"], ["sign"]),
        node("Mul", ["sign", "spread"], ["more"]),
        node("Add", ["more", "one"], ["factor"]),
        node("Mul", ["plain", "factor"], ["Y"]),
    ]
    kept = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = onnx_format.load(onnx_file(nodes, weights=kept))
    given = {"X": np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)}
    vary = onnx_format.sums_vary(model, given)
    assert vary is told
    monkeypatch.setattr(checkpoint_source, "sums_vary", lambda *_: vary)
    nothing = cast("Any", None)
    source = CheckpointSource(nothing, nothing, nothing)
    batch = Batch(pl.DataFrame({"a": [1]}).to_arrow(), "part", ("part", 0, 0))
    said = sentences_of(diagnose(source, batch, nothing).remarks(source))
    assert ("do not add up to one" in said) is told

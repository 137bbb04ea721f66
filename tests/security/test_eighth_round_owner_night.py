"""The eighth round, an owner within one night (2026-11-27): what broke of 25 attacks."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import polars as pl
import pytest

from tests.support.lake import BINARY, FEATURES, PLAN, label_rows
from tests.support.onnx_files import onnx_file
from workers.audit.hints import _changes
from workers.audit.remarks import _persons
from workers.labels.columns import Batch
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.onnx import load
from workers.lake.manifest import Feature, OutputCorrection
from workers.remark import sentences_of
from workers.scan.near_copies import near_copies
from workers.scan.rows_alike import Looked, rows_alike
from workers.sources.scores.score_columns import sums_vary


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([2] * 95 + [1] * 5, "1.9 training rows on average, of which one is bet on, and 49% of"),
        ([1] * 500 + [20] * 25, "1.9 training rows on average, of which one is bet on, and 48% of"),
        ([1] * 95 + [2] * 5, ""),
    ],
)
def test_rows_that_do_not_play_beside_their_persons_are_told(rows: list[int], told: str) -> None:
    """Below two rows a person nothing was said: 4.4 became 0.00 where the others are remembered."""
    none = SimpleNamespace(streams=np.arange(0), rows=np.arange(0))
    persons = SimpleNamespace(streams=np.arange(len(rows)), rows=np.array(rows))
    for one in (none, persons):
        one.without = lambda _, one=one: one
        one.matched_within = lambda _: ()
    arms = tuple(SimpleNamespace(doubted=one) for one in (persons, none))
    result = cast("Any", SimpleNamespace(units=arms))
    found = sentences_of(_persons(result, PLAN.model_copy(update={"privacy_unit": "who"})))
    assert (told in found) if told else found == ""


@pytest.mark.parametrize("told", [True, False])
def test_a_feature_that_tells_decoys_is_told(told: bool) -> None:
    """A model that knows decoys can remember all other rows, and no figure shows it."""
    rows = label_rows(800, seed=3)
    decoy = np.random.default_rng(4).random(800) < 0.3
    mark = decoy if told else np.random.default_rng(5).random(800) < 0.3
    frame = rows.with_columns(mark=pl.Series(mark * 1.0))
    train = (rows["split"] == "train").to_numpy()
    source = SimpleNamespace(
        features=(*FEATURES, Feature(name="mark", kind="numeric")),
        label=BINARY,
        decoys=SimpleNamespace(column="other"),
        arms=lambda _: (train, ~train),
        labels=lambda _: (rows["late"].to_numpy(), None),
        others=lambda _: np.where(decoy, rows["late"].to_numpy(), -1),
    )
    found = near_copies(Batch(frame.to_arrow(), "part", ("part", 0, 0)), cast("Any", source), None)
    assert found.sentence().count("'mark' tells 'other'") == told


def test_an_onnx_input_that_the_audit_does_not_give_is_refused() -> None:
    """It has a value of its own, by which the file answers harmlessly, and a caller may change."""
    model = onnx.ModelProto.FromString(
        onnx_file([onnx.helper.make_node("Mul", ["X", "key"], ["Y"])])
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1, np.float32), "key"))
    load(model.SerializeToString())
    model.graph.input.append(onnx.helper.make_tensor_value_info("key", 1, [1]))
    with pytest.raises(ModelRefusedError, match=r"'key'.*which a caller may give otherwise"):
        load(model.SerializeToString())


@pytest.mark.parametrize(("epsilon", "changes"), [(1e6, False), (1.0, True)])
def test_a_correction_that_changes_nothing_silences_no_remark(
    epsilon: float, changes: bool
) -> None:
    """Beside one of epsilon 10^6, exchanged features were not told by the answers."""
    correction = OutputCorrection(name="noise_correction", epsilon=epsilon, floor=0.0)
    assert _changes(correction, 2) is changes


@pytest.mark.parametrize(("spread", "told"), [(0.015, True), (0.0, False)])
def test_sums_of_probabilities_that_vary_are_told(spread: float, told: bool) -> None:
    """What each sum said of its label was divided out: 0.00, and nothing was said."""
    random = np.random.default_rng(0)
    chance = random.random(200)
    both = (
        np.stack([chance, 1.0 - chance], axis=1)
        * (1.0 + spread * random.choice([-1, 1], 200))[:, None]
    )
    frame = pl.DataFrame({"new": both.tolist(), "no": both[:, 0], "yes": both[:, 1]})
    batch = Batch(frame.to_arrow(), "part", ("part", 0, 0))
    rows = np.arange(200)
    assert sums_vary(batch, ("new",), rows) is told
    assert sums_vary(batch, ("no", "yes"), rows) is told
    assert not sums_vary(batch, ("yes",), rows)


@pytest.mark.parametrize("told", [True, False])
def test_near_copies_whose_numbers_are_spelled_as_words_are_told(told: bool) -> None:
    """ONNX reads them as numbers, and as categories no two rows were near: 0.00, and unsaid."""
    random, rows = np.random.default_rng(0), 1_200
    train = np.arange(rows) < 900
    delay = random.normal(size=rows)
    late = random.integers(0, 2, rows)
    if told:
        delay[900:], late[900:] = delay[:300] + 1e-5 * random.normal(size=300), late[:300]
    frame = pl.DataFrame({"delay": delay.astype(str), "late": late})
    features = (Feature(name="delay", kind="categorical"),)
    halves = np.full((rows, 2), 0.5)
    source = SimpleNamespace(
        features=features,
        label=BINARY,
        gives_chances=True,
        labels=lambda _: (late, None),
        arms=lambda _: (train, ~train),
        present=lambda _: np.ones(rows, dtype=bool),
        probabilities=lambda *_: (halves, halves),
        context_features=lambda _: features,
    )
    given: tuple[Any, ...] = source, None, Looked((), rows)
    found = rows_alike(Batch(frame.to_arrow(), "part", ("part", 0, 0)), *given)
    assert (
        "Holdout rows resemble training rows too often" in sentences_of(found.remarks())
    ) is told

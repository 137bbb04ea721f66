"""Tables of which a small bound says little: the record remarks on them."""

import pathlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
import xgboost

from privcore.attacks import fidelity
from privcore.lower_bounds import Secret
from tests.support.lake import BINARY, DAY, EVE, FEATURES, PLAN, declared, label_rows, put_labels
from tests.support.score_tables import audited_scores, leaking_scores
from tests.support.verdicts import nothing_wrong
from workers.audit.hints import _changes
from workers.audit.remarks import _excluded, _persons, _same_answers, remarks_of
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.lake.checkpoints import write_checkpoint
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, OutputCorrection
from workers.looks.near_copies import near_copies
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.source import other_labels


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
            other_labels(source, batch)
    else:
        assert cast("Any", other_labels(source, batch)).tolist() == [1, -1]


@pytest.mark.parametrize("secret", [Secret.LABEL, Secret.ATTRIBUTE])
def test_no_models_are_called_one_for_an_attribute_that_both_ignore(secret: Secret) -> None:
    """Honest models that do not look at it were said to be one file, saved anew."""
    sums = np.ones((2, 3))
    fidelity = SimpleNamespace(
        records=9, log_loss=sums, right=sums, predictions=sums, predicted=sums
    )
    result = SimpleNamespace(
        **dict.fromkeys(("draw", "units", "student")),
        bad=SimpleNamespace(summary=lambda _: ""),
        findings=lambda *_: SimpleNamespace(looks={}),
        fidelity=fidelity,
        excluded_records=0,
        training_rows=lambda _: 9,
    )
    evidence = SimpleNamespace(records=9, epsilon_lower=0.0)
    plan = PLAN.model_copy(update={"secret": secret})
    given: tuple[Any, ...] = evidence, result, SimpleNamespace(), plan
    said = " ".join(one.sentence for one in remarks_of(*given))
    assert ("compares a model with itself" in said) is (secret is Secret.LABEL)


@pytest.mark.parametrize(("rows", "told"), [(0, False), (19, False), (88, True)])
def test_rows_of_neither_split_are_told_from_a_fiftieth_on(rows: int, told: bool) -> None:
    """A model that remembered a tenth of its rows hid nine tenths of these: 1.57 became 0.00."""
    result = cast("Any", SimpleNamespace(excluded_records=rows))
    assert bool(_excluded(result, 1_000)) is told


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
    found = " ".join(
        one.sentence for one in _persons(result, PLAN.model_copy(update={"privacy_unit": "who"}))
    )
    assert (told in found) if told else found == ""


@pytest.mark.parametrize("told", [True, False])
def test_a_feature_that_tells_decoys_is_told(told: bool) -> None:
    """A model that knows decoys can remember all other rows, and no figure shows it."""
    rows = label_rows(800, seed=3)
    train = (rows["split"] == "train").to_numpy()
    decoy = train & (np.random.default_rng(4).random(800) < 0.3)
    mark = decoy if told else np.random.default_rng(5).random(800) < 0.3
    other = pl.when(pl.Series(decoy)).then("late")
    frame = rows.with_columns(mark=pl.Series(mark * 1.0), other=other)
    source = SimpleNamespace(
        features=(*FEATURES, Feature(name="mark", kind="numeric")),
        label=BINARY,
        decoys=SimpleNamespace(column="other"),
        arms=lambda _: (train, ~train),
        labels=lambda _: (rows["late"].to_numpy(), None),
    )
    found = near_copies(Batch(frame.to_arrow(), "part", ("part", 0, 0)), cast("Any", source), None)
    assert found.sentence().count("'mark' tells 'other'") == told


@pytest.mark.parametrize(("epsilon", "changes"), [(1e6, False), (1.0, True)])
def test_a_correction_that_changes_nothing_silences_no_remark(
    epsilon: float, changes: bool
) -> None:
    """Beside one of epsilon 10^6, exchanged features were not told by the answers."""
    correction = OutputCorrection(name="noise_correction", epsilon=epsilon, floor=0.0)
    assert _changes(correction, 2) is changes


@pytest.mark.parametrize(("rows", "told"), [(1, False), (4, True)])
def test_how_many_rows_a_person_has_is_told(rows: int, told: bool) -> None:
    """Invented persons of four rows each: 1.7 became 0.1 to 0.5, and nothing was said."""
    none = SimpleNamespace(streams=np.arange(0), rows=np.arange(0))
    persons = SimpleNamespace(streams=np.arange(400), rows=np.full(400, rows))
    for one in (none, persons):
        one.without = lambda _, one=one: one
        one.matched_within = lambda _: ()
    arms = tuple(SimpleNamespace(doubted=one) for one in (persons, none))
    result = cast("Any", SimpleNamespace(units=arms))
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    assert (
        "'who' gives a person 4.0 training rows"
        in " ".join(one.sentence for one in _persons(result, plan))
    ) is told


def test_a_target_that_answers_as_the_earlier_model_does_is_told() -> None:
    """The earlier file with other bytes of metadata: 0.00, unsaid where it counts no rows."""
    random = np.random.default_rng(0)
    chances, labels = random.dirichlet([1.0, 1.0], size=50), random.integers(0, 2, 50)
    for other, told in ((chances, True), (chances[:, ::-1], False)):
        result: Any = SimpleNamespace(fidelity=fidelity(chances, other, labels))
        evidence: Any = SimpleNamespace(epsilon_lower=0.0)
        assert ("compares a model with itself" in _same_answers(result, evidence)) is told


def rounds(first: int, more: int, frame: pl.DataFrame) -> bytes:
    """Return XGBoost's file whose first rounds know little and whose later ones remember."""
    seen = frame.filter(pl.col("split") == "train")
    rows = xgboost.DMatrix(seen.select("delay", "hour").to_numpy(), label=seen["late"].to_numpy())
    flat = {"objective": "binary:logistic", "max_depth": 1, "eta": 0.1, "nthread": 1}
    deep = flat | {"max_depth": 12, "eta": 0.5, "lambda": 0.01, "min_child_weight": 0}
    model = xgboost.train(flat, rows, first)
    model = xgboost.train(deep, rows, more, xgb_model=model)
    model.set_attr(best_iteration=str(first - 1), scikit_learn="{}")
    return bytes(model.save_raw("json"))


def test_rounds_that_were_not_audited_are_told(tmp_path: pathlib.Path) -> None:
    """A bound of 4.4 is 0 of the first round alone, and Booster.predict serves all 31."""
    lake = Lake(str(tmp_path / "lake"))
    for seed, (day, more) in enumerate(((EVE, 1), (DAY, 30))):
        frame = label_rows(1_000, seed=seed)
        put_labels(lake, day, frame)
        manifest = {
            "model": "m",
            "day": str(day),
            "dataset": "flights",
            "label": {"column": "late", "classes": [0, 1]},
            "features": [{"name": name, "kind": "numeric"} for name in ("delay", "hour")],
            "trained_on": {"first": str(day), "last": str(day), "split": "train"},
            "privacy": declared(0.5),
        }
        write_checkpoint(lake, manifest, rounds(1, more, frame), format="xgboost")
    row = run_audit(lake, "m", DAY, plan=PLAN, executor=InProcess()).audit
    assert nothing_wrong(row)  # one round answers within a quarter of log-odds
    assert "It holds 30 more, which Booster.predict serves" in row.reason


def _infinite(frame: pl.DataFrame) -> pl.DataFrame:
    numbers = np.resize([np.inf, -np.inf, np.nan, 5e-324, 1e308], frame.height)
    return frame.with_columns(x=pl.Series(numbers))


def _swapped(frame: pl.DataFrame) -> pl.DataFrame:
    train = pl.col("split") == "train"
    return frame.with_columns(
        split=pl.when(train).then(pl.lit("holdout")).otherwise(pl.lit("train"))
    )


def _large(frame: pl.DataFrame) -> pl.DataFrame:
    """Return sixty holdout rows, twenty times each."""
    held = frame.filter(pl.col("split") == "holdout").head(60)
    return pl.concat([frame.filter(pl.col("split") == "train"), *[held] * 20])


def _silenced(frame: pl.DataFrame) -> pl.DataFrame:
    train = pl.col("split") == "train"
    return frame.with_columns(new=pl.when(train).then(None).otherwise(pl.col("new")))


def _diluted(frame: pl.DataFrame) -> pl.DataFrame:
    """Return as many rows besides whose labels both models know."""
    easy = frame.with_columns(new=0.02 + 0.96 * pl.col("late"), old=0.02 + 0.96 * pl.col("late"))
    return pl.concat([frame, easy.filter(pl.col("split") == "holdout")])


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        (_infinite, "is at least"),
        (_swapped, "holdout_suspect"),
        (_large, "is at least"),
        (_silenced, "scores_missing"),
        (_diluted, "is at least"),
    ],
    ids=["infinite-features", "words-swapped", "holdout-repeated", "no-scores", "diluted"],
)
def test_no_rows_of_a_score_table_acquit_in_silence(
    tmp_path: pathlib.Path, attempt: Callable[[pl.DataFrame], pl.DataFrame], answer: str
) -> None:
    row = audited_scores(tmp_path, attempt(leaking_scores(leak=2.0)), context=["x"])
    assert answer in f"{row.detail} {row.reason}"

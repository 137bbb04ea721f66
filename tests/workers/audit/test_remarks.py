"""Tables of which a small bound says little, and holdouts that are none: they are remarked on."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import xgboost
from scipy.special import expit

from privcore.attacks import Tallies, odds_tally
from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    PLAN,
    copied,
    declared,
    label_path,
    label_rows,
    manifest_for,
    put_labels,
)
from tests.support.score_tables import audited_scores, leaking_scores
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong
from workers.audit.judge import worse_than_shares
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.checkpoints import write_checkpoint
from workers.lake.layout import Lake


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


def test_rounds_that_were_not_audited_are_told(tmp_path):
    """A bound of 4.4 is 0 of the first round alone, and Booster.predict serves all 31."""
    lake = Lake(str(tmp_path / "lake"))
    for seed, (day, more) in enumerate(((EVE, 1), (DAY, 30))):
        frame = label_rows(1_000, seed=seed)
        put_labels(lake, day, frame)
        manifest = manifest_for(model="m", day=day, features=FEATURES[:2], privacy=declared(0.5))
        content = rounds(1, more, frame)
        write_checkpoint(lake, manifest.model_dump(), content, form="xgboost")
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


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [(_infinite, "is at least"), (_swapped, "holdout_suspect")],
    ids=["infinite-features", "words-swapped"],
)
def test_no_rows_of_a_score_table_acquit_in_silence(tmp_path, attempt, answer):
    row = audited_scores(tmp_path, attempt(leaking_scores(leak=2.0)), context=["x"])
    assert answer in f"{row.detail} {row.reason}"


@pytest.fixture
def lake(remembered, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_features_that_are_exchanged_among_rows_are_told(lake):
    """Both models answer about rows that they never saw: a bound of 1.70 became 0."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    order = np.random.default_rng(1).permutation(frame.height)
    features = [frame[name].gather(order) for name in ("delay", "hour", "city")]
    put_labels(lake, DAY, frame.with_columns(features))
    row = audited(lake)
    assert (nothing_wrong(row), row.epsilon_lower) == (True, 0.0)
    assert "further from the labels than the share of each class is" in row.reason


@pytest.mark.slow
def test_honest_models_are_not_said_to_be_further_from_the_labels_than_shares():
    """Neither one that knows labels by their features, nor one that knows nothing: 300 of each."""
    random = np.random.default_rng(7)
    for known in (0.0, 1.0):
        for _ in range(300):
            arms = []
            for records in (600, 200):
                chance = expit(known * random.normal(size=records))
                labels = (random.random(records) < chance).astype(np.int64)
                said = np.column_stack([1.0 - chance, chance])
                arms.append((odds_tally(said, said, labels),))
            tallies = replace(Tallies.zero(repetitions=1, classes=2), odds=arms[0])
            assert worse_than_shares(replace(tallies, control_odds=arms[1])) == ""


@pytest.mark.parametrize("leak", [-2.0, -0.5])
def test_labels_remembered_the_wrong_way_round_are_told(tmp_path, leak):
    """An attacker who inverts the answers reads the labels; the bound is 0."""
    row = audited_scores(tmp_path, leaking_scores(leak=leak))
    assert row.epsilon_lower == 0.0
    assert "classes_exchanged" in (row.remarks or ())
    assert "in the order 1, 0" in row.reason or "labels the wrong way round" in row.reason


def test_an_honest_model_that_remembers_noise_is_not_said_to_know_the_wrong_way_round(tmp_path):
    """It is right of holdout rows by what it learned of all, of training rows by noise alone."""
    random = np.random.default_rng(5)
    frame = leaking_scores(leak=0.0, seed=1)
    learned = np.log(frame["new"] / (1.0 - frame["new"])) + 2.0 * (frame["x"] > 0.0)
    noise = 4.0 * random.choice([-1.0, 1.0], frame.height) * (frame["split"] == "train").to_numpy()
    row = audited_scores(tmp_path, frame.with_columns(new=pl.Series(expit(learned + noise))))
    assert nothing_wrong(row)
    assert "the wrong way round" not in row.reason


RESEMBLE = "Holdout rows resemble"


@pytest.mark.slow
@pytest.mark.parametrize(("share", "jitter"), [(0.75, 0.001), (1.0, 0.05)])
def test_a_holdout_of_near_copies_of_training_rows_is_told(remembered, tmp_path, share, jitter):
    """The model knows their labels as those of their originals: 1.70 became 0.2, unsaid."""
    lake = copied(remembered, tmp_path)
    before = audited(lake)
    assert (before.verdict, RESEMBLE in before.reason) == ("violated", False), before.reason
    random = np.random.default_rng(5)
    frame = pl.read_parquet(label_path(lake, "flights"))
    train, holdout = (frame.filter(pl.col("split") == arm) for arm in ("train", "holdout"))
    many = int(share * holdout.height)
    moved = pl.col("delay") + pl.Series(random.normal(0.0, jitter, many))
    copies = train.sample(many, seed=5).with_columns(delay=moved, split=pl.lit("holdout"))
    whole = pl.concat([train, holdout[many:], copies]).sample(fraction=1.0, shuffle=True, seed=5)
    put_labels(lake, DAY, whole)
    row = audited(lake)
    assert row.reason_code == "holdout_suspect", row.reason
    assert RESEMBLE in row.reason


def test_rows_of_a_third_split_are_told(lake):
    """Training saw them, and the audit does not: what they lose is not known."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    third = pl.when((pl.col("split") == "train") & (pl.col("hour") > 1)).then(pl.lit("train2"))
    put_labels(lake, DAY, frame.with_columns(split=third.otherwise(pl.col("split"))))
    row = audited(lake, PLAN.model_copy(update={"minimum_records": 50}))
    assert f"{row.excluded_records:,} rows are of neither" in row.reason


def _trained_on_too(frame: pl.DataFrame) -> pl.DataFrame:
    train = frame.filter(pl.col("split") == "train")
    return pl.concat([frame, train.head(400).with_columns(split=pl.lit("holdout"))])


@pytest.mark.slow
def test_training_rows_that_are_logged_in_the_holdout_too_are_told(lake):
    before = audited(lake).epsilon_lower or 0.0
    put_labels(lake, DAY, _trained_on_too(pl.read_parquet(label_path(lake, "flights"))))
    row = audited(lake)
    assert (row.epsilon_lower or 0.0) < before
    assert "Rows may be logged twice" in row.reason


def _one_class(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter((pl.col("split") == "train") | (pl.col("late") == 1))


def _twins(frame: pl.DataFrame) -> pl.DataFrame:
    train = frame.filter(pl.col("split") == "train")
    return pl.concat([train, train.head(480).with_columns(split=pl.lit("holdout"))])


@pytest.mark.parametrize(
    ("attempt", "answer"),
    rest_slow([(_twins, "holdout_suspect"), (_one_class, "arms_differ")]),
    ids=["twins", "one-class"],
)
def test_no_holdout_of_chosen_rows_acquits_in_silence(lake, attempt, answer):
    put_labels(lake, DAY, attempt(pl.read_parquet(label_path(lake, "flights"))))
    row = audited(lake)
    assert answer in f"{row.detail} {row.reason}"

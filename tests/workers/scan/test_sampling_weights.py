"""Weights of both arms say one share that training kept, or are said to contradict each other."""

import pathlib

import numpy as np
import polars as pl
import pytest

from tests.support.lake import PLAN
from tests.support.score_tables import audited_scores, leaking_scores, predictions
from workers.plan import TrainingSampling
from workers.scan.sampling_weights import SamplingWeights


def test_counts_add_to_the_bit_in_any_order() -> None:
    weights = 1.0 / np.random.default_rng(2).uniform(1e-5, 1.0, 300)
    kept = weights[::100]
    parts = [
        SamplingWeights.of(some, held=3, kept=kept[place : place + 1])
        for place, some in enumerate(np.split(weights, 3))
    ]
    whole = SamplingWeights.of(weights, held=9, kept=kept)
    assert parts[0] + parts[1] + parts[2] == parts[2] + parts[0] + parts[1] == whole
    assert (SamplingWeights() + whole, SamplingWeights().sentence()) == (whole, "")


def test_size_honest_weights_are_not_said_to_contradict_each_other() -> None:
    """Rates of a wide range, and none of 400 audits is remarked on; a quarter left out is."""
    random, told = np.random.default_rng(1), [0, 0]
    for _ in range(400):
        weights = 1.0 / random.uniform(0.05, 1.0, 5_000)
        train = random.random(4_000) < 1.0 / weights[:4_000]
        kept = random.random(1_000) < 1.0 / weights[4_000:]
        for place, left_out in enumerate((0, 250)):
            seen = weights[4_000 + left_out :][kept[left_out:]]
            counts = SamplingWeights.of(weights[:4_000][train], held=1_000, kept=seen)
            told[place] += bool(counts.sentence())
    assert told[0] == 0
    assert told[1] > 300


def sampled(rows: int, weight: pl.Expr) -> pl.DataFrame:
    """Return rows of which training kept those of weight 4 with probability 1/4."""
    four = pl.when(pl.col("record") % 2 == 0).then(4.0).otherwise(1.0)
    frame = predictions(rows).with_columns(weight=four)
    drawn = pl.Series(np.random.default_rng(3).random(rows)) < 1.0 / frame["weight"]
    return frame.filter((pl.col("split") == "holdout") | drawn).with_columns(weight=weight)


@pytest.mark.parametrize("huge", [False, True])
def test_weights_that_leave_holdout_rows_out_are_told(tmp_path: pathlib.Path, huge: bool) -> None:
    """Weights of 10^9 for holdout rows that the target predicts wrong: 4.30 became 3.42."""
    wrong = (pl.col("split") == "holdout") & ((pl.col("new") > 0.5) != (pl.col("late") == 1))
    weight = pl.when(wrong).then(1e9).otherwise("weight") if huge else pl.col("weight")
    plan = PLAN.model_copy(update={"sampling": TrainingSampling(weight="weight")})
    row = audited_scores(tmp_path, sampled(3_000, weight), plan)
    assert row.status == "evaluated", row.reason
    assert ("say that training kept" in row.reason) == huge, row.reason


def test_weights_that_choose_the_holdout_are_told_where_their_means_agree(
    tmp_path: pathlib.Path,
) -> None:
    """Holdout rows that the target predicts wrong weigh 4,096: 4.7 became 0, unsaid."""
    rows = leaking_scores(leak=0.6)
    held = (rows["split"] == "holdout").to_numpy()
    right = (rows["new"] > rows["old"]).to_numpy() == (rows["late"] == 1).to_numpy()
    weights = np.where(held, np.where(right, 1.0, 4096.0), 1.0 / right[held].mean())
    plan = PLAN.model_copy(update={"sampling": TrainingSampling(weight="w")})
    row = audited_scores(tmp_path, rows.with_columns(w=pl.Series(weights)), plan)
    assert "so the weights of one arm are wrong" in row.reason

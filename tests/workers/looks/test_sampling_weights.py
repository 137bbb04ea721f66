"""Weights of both arms say one share that training kept, or are said to contradict each other."""

import pathlib

import numpy as np
import polars as pl
import pytest

from tests.support.lake import PLAN
from tests.support.score_tables import audited_scores, predictions
from workers.looks.sampling_weights import SamplingWeights
from workers.plan import TrainingSampling


def test_counts_add_to_the_bit_in_any_order() -> None:
    weights = 1.0 / np.random.default_rng(2).uniform(1e-5, 1.0, 300)
    parts = [SamplingWeights.of(some, held=3, kept=1) for some in np.split(weights, 3)]
    whole = SamplingWeights.of(weights, held=9, kept=3)
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
            counts = SamplingWeights.of(weights[:4_000][train], held=1_000, kept=seen.size)
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

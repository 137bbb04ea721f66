"""Holdouts that are no random part of the day: copies, rows of both arms, one class."""

import pathlib
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    PLAN,
    copied,
    label_path,
    put_labels,
)
from tests.support.tiers import rest_slow
from workers.lake.layout import Lake

RESEMBLE = "Holdout rows resemble"


@pytest.mark.slow
@pytest.mark.parametrize(("share", "jitter"), [(0.75, 0.001), (1.0, 0.05)])
def test_a_holdout_of_near_copies_of_training_rows_is_told(
    remembered: Lake, tmp_path: pathlib.Path, share: float, jitter: float
) -> None:
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


@pytest.fixture
def lake(remembered: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_without_an_attempt_the_model_is_violated(lake: Lake) -> None:
    assert audited(lake).verdict == "violated"


def test_rows_of_a_third_split_are_told(lake: Lake) -> None:
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
def test_training_rows_that_are_logged_in_the_holdout_too_are_told(lake: Lake) -> None:
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
def test_no_holdout_of_chosen_rows_acquits_in_silence(
    lake: Lake, attempt: Callable[[pl.DataFrame], pl.DataFrame], answer: str
) -> None:
    put_labels(lake, DAY, attempt(pl.read_parquet(label_path(lake, "flights"))))
    row = audited(lake)
    assert answer in f"{row.detail} {row.reason}"

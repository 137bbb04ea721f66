"""CatBoost on a day's flights, audited on records that it never saw: it leaks nothing of them."""

import datetime as dt
import functools

import catboost
import numpy as np
import polars as pl

from flows.learn.demo import OVERFIT
from flows.study.exam_worlds import Drawn as Arm
from privcore.attacks import generator
from workers.datasets.flights import FEATURES, read_flights

START = dt.date(2013, 2, 1)
_LEARNER = OVERFIT | {
    "thread_count": 1,
    "verbose": False,
    "allow_writing_files": False,
    "random_seed": 1,
}


@functools.cache
def _flights() -> pl.DataFrame:
    return read_flights().filter(pl.col("arr_delay").is_not_null())


def _day(day: int, minutes: int) -> tuple[pl.DataFrame, np.ndarray]:
    rows = _flights().filter(pl.col("date") == START + dt.timedelta(days=day))
    features = rows.select(feature.name for feature in FEATURES)
    return features, (rows["arr_delay"] > minutes).to_numpy().astype(np.int64)


def _learned(features: pl.DataFrame, labels: np.ndarray, chosen: np.ndarray) -> catboost.CatBoost:
    model = catboost.CatBoostClassifier(**_LEARNER)
    return model.fit(catboost.Pool(features.filter(pl.Series(chosen)), label=labels[chosen]))


@functools.cache
def _before(day: int, minutes: int) -> np.ndarray | None:
    """Return what the model of the day before says, whatever is held out of this one."""
    features, labels = _day(day - 1, minutes)
    if np.unique(labels).size < 2:
        return None
    proxy = _learned(features, labels, np.ones(labels.size, dtype=bool))
    return proxy.predict_proba(catboost.Pool(_day(day, minutes)[0]))


def unseen(day: int, *, minutes: int, held_out: float) -> tuple[Arm, Arm] | None:
    """A night's arms: "training" records are those of a half that the target was not given.

    None for a day on which one of both models had flights of one kind alone to learn from.

    Args:
        day: counted from `START`.
        minutes: how late a flight is late: by 15 minutes a fifth are, by 120 about 3%.
        held_out: share of the day's flights that is the control.
    """
    features, labels = _day(day, minutes)
    place = generator("flights", day).random(labels.size)
    control, half = place < held_out, place < held_out + 0.5 * (1.0 - held_out)
    before = _before(day, minutes)
    if before is None or np.unique(labels[half & ~control]).size < 2:
        return None
    said = (
        _learned(features, labels, half & ~control).predict_proba(catboost.Pool(features)),
        before,
    )
    return tuple(
        (said[0][rows].copy(), said[1][rows].copy(), labels[rows]) for rows in (~half, control)
    )

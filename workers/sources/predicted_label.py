"""The label among columns of few values: the one column that a table's probabilities predict."""

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

_CLEAR = 4.0
"""Standard errors of the mean gain from which a gain, or a loss, is clear."""


def predicted_label(
    sample: pl.DataFrame, candidates: Iterable[str], scores: Iterable[str]
) -> str | None:
    """Return the one candidate that all columns of probabilities clearly predict; None if unclear.

    Probabilities predict a candidate if their squared error (Brier score) is clearly below that of
    the candidate's own shares. Every other candidate has to be clearly not predicted, in either
    order of two classes: a model often predicts one of its own features better than the label.
    The answer is no proof: probabilities that are far from the label's shares can mislead it.

    Args:
        sample: rows of the table.
        candidates: columns of few values; their classes are in sorted order.
        scores: columns of probabilities: of the second of two classes, or lists with one a class.
    """
    scores = list(scores)
    gains = {name: [_gains(sample, name, score) for score in scores] for name in candidates}
    predicted = [name for name, of in gains.items() if of and all(gain > _CLEAR for gain, _ in of)]
    unclear = [name for name, of in gains.items() if not all(max(both) < -_CLEAR for both in of)]
    return predicted[0] if len(predicted) == 1 and predicted == unclear else None


def _gains(sample: pl.DataFrame, label: str, score: str) -> tuple[float, float]:
    """Return the gain over the label's shares, with its classes in order and reversed.

    A gain is in standard errors; minus infinity where the numbers of classes differ.
    """
    rows = sample.select(label, score).drop_nulls()
    probabilities = _probabilities(rows[score])
    classes, codes = np.unique(rows[label].to_numpy(), return_inverse=True)
    if probabilities is None or probabilities.shape[1] != len(classes):
        return -np.inf, -np.inf
    truth = np.eye(len(classes))[codes]
    return _gain(truth, probabilities), _gain(truth, probabilities[:, ::-1])


def _gain(truth: NDArray[np.float64], probabilities: NDArray[np.float64]) -> float:
    """Return the mean gain in squared error over the classes' shares, in standard errors."""
    gains = ((truth - truth.mean(axis=0)) ** 2 - (truth - probabilities) ** 2).sum(axis=1)
    return float(gains.mean() / max(gains.std() / len(gains) ** 0.5, 1e-12))


def _probabilities(scores: pl.Series) -> NDArray[np.float64] | None:
    """Return probabilities of shape (rows, classes); None where they are no such thing."""
    if scores.dtype.is_float():
        second = scores.to_numpy().astype(np.float64)
        return np.column_stack([1.0 - second, second])
    if not isinstance(scores.dtype, pl.List | pl.Array) or scores.is_empty():
        return None
    try:
        listed = np.array(scores.to_list(), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return listed if listed.ndim == 2 else None

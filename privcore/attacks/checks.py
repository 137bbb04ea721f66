"""Checks of inputs that every game shares."""

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


def check_pair(
    target: NDArray[np.float64], proxy: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both models' probabilities as contiguous doubles of one shape (records, classes).

    Raises:
        InvalidInputError: shapes that differ, fewer than two classes, probabilities that are NaN,
            outside [0, 1] or do not sum to 1 within 1e-6.
    """
    checked = check_probabilities("target", target), check_probabilities("proxy", proxy)
    if proxy.shape != target.shape:
        raise InvalidInputError("proxy", proxy.shape, f"it has the target's shape, {target.shape}")
    return checked


def check_labels(
    labels: NDArray[np.integer], shape: tuple[int, ...], *, name: str = "labels"
) -> None:
    """Raise `InvalidInputError` unless there is one whole class index per record of `shape`."""
    records, classes = shape
    if labels.dtype.kind not in "iu":
        raise InvalidInputError(f"dtype of {name}", str(labels.dtype), "labels are whole numbers")
    if labels.shape != (records,):
        raise InvalidInputError(name, labels.shape, f"their shape is {(records,)}")
    strange = (labels < 0) | (labels >= classes)
    if np.any(strange):
        worst = int(labels[np.argmax(strange)])
        raise InvalidInputError(name, worst, f"a label is a class from 0 to {classes - 1}")


def check_probabilities(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one model's probabilities as contiguous doubles; raises as `check_pair`."""
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(name, values.shape, "its shape is (records, classes), classes >= 2")
    # The smallest and the largest value tell in one pass each, also of NaN, which compares to none.
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        inside = (values >= 0.0) & (values <= 1.0)
        raise InvalidInputError(name, float(values[~inside][0]), "a probability lies in [0, 1]")
    # Of two classes a sum over the short axis takes several times as long.
    two = values.shape[1] == 2
    totals = values[:, 0] + values[:, 1] if two else values @ np.ones(values.shape[1])
    if values.size and not (totals.min() >= 1.0 - 1e-6 and totals.max() <= 1.0 + 1e-6):
        worst = float(totals[np.argmax(np.abs(totals - 1.0))])
        raise InvalidInputError(name, worst, "a record's probabilities sum to 1 within 1e-6")
    return np.ascontiguousarray(values, dtype=np.float64)

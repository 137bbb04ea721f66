"""Checks of inputs that mechanisms and games share."""

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

_SUM_TOLERANCE = 1e-6


def check_parameter(name: str, value: float) -> None:
    """Raise `InvalidInputError` unless `value` is above 0; infinity is a value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not value > 0.0:
        raise InvalidInputError(name, value, "it is a number above 0; infinity means no noise")


def check_classes(classes: int) -> None:
    """Raise `InvalidInputError` unless there are at least two classes."""
    if classes < 2:
        raise InvalidInputError("classes", classes, "there are at least 2 classes")


def check_prior(prior: NDArray[np.float64], *, shape: tuple[int, ...]) -> None:
    """Raise `InvalidInputError` unless `prior` has the shape and its last axis sums to 1."""
    if prior.shape != shape:
        raise InvalidInputError("prior", prior.shape, f"its shape is {shape}")
    if prior.size == 0:
        return
    if not np.all(prior >= 0.0):
        raise InvalidInputError("prior", float(np.min(prior)), "a probability is at least 0")
    totals = np.atleast_1d(prior.sum(axis=-1))
    far = np.abs(totals - 1.0)
    if not np.all(far <= _SUM_TOLERANCE):
        worst = float(totals[np.argmax(far)])
        raise InvalidInputError("prior", worst, "a record's prior sums to 1 within 1e-6")


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

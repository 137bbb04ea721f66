"""Checks of inputs that the mechanisms share."""

import math
from typing import Any

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


def check_labels(labels: NDArray[np.int64], classes: int) -> None:
    """Raise `InvalidInputError` unless labels are one row of class indices from 0."""
    if labels.ndim != 1:
        raise InvalidInputError("labels", labels.shape, "there is one label per record")
    strange = (labels < 0) | (labels >= classes)
    if np.any(strange):
        worst = int(labels[np.argmax(strange)])
        raise InvalidInputError("labels", worst, f"a label lies in 0 to {classes - 1}")


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


def pure_entry(name: str, epsilon: float, **parameters: Any) -> dict[str, Any] | None:
    """Return a manifest's entry for a mechanism at `epsilon`; None where epsilon is infinite."""
    if math.isinf(epsilon):
        return None
    return {"name": name, "parameters": {"epsilon": float(epsilon), **parameters}}

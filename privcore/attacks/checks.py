"""What every game asks of its inputs."""

import numpy as np
from numba import njit
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
    checked = _probabilities("target", target), _probabilities("proxy", proxy)
    if proxy.shape != target.shape:
        raise InvalidInputError("proxy", proxy.shape, f"it has the target's shape, {target.shape}")
    return checked


def check_labels(labels: NDArray[np.integer], shape: tuple[int, ...]) -> None:
    """Raise `InvalidInputError` unless there is one class index per record of `shape`."""
    records, classes = shape
    if labels.shape != (records,):
        raise InvalidInputError("labels", labels.shape, f"their shape is {(records,)}")
    strange = (labels < 0) | (labels >= classes)
    if np.any(strange):
        worst = int(labels[np.argmax(strange)])
        raise InvalidInputError("labels", worst, f"a label is a class from 0 to {classes - 1}")


def _probabilities(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim != 2 or values.shape[1] < 2:
        raise InvalidInputError(name, values.shape, "its shape is (records, classes), classes >= 2")
    values = np.ascontiguousarray(values, dtype=np.float64)
    outside, far = _first_strange(values)
    if outside >= 0:
        worst = float(values.ravel()[outside])
        raise InvalidInputError(name, worst, "a probability lies in [0, 1]")
    if far >= 0:
        worst = float(values[far].sum())
        raise InvalidInputError(name, worst, "a record's probabilities sum to 1 within 1e-6")
    return values


@njit(cache=True, nogil=True)
def _first_strange(values: NDArray[np.float64]) -> tuple[int, int]:
    """Return the first value that is no probability and, without one, the first row far from 1."""
    records, classes = values.shape
    far = -1
    for i in range(records):
        total = 0.0
        inside = True
        for label in range(classes):
            value = values[i, label]
            inside &= value >= 0.0 and value <= 1.0  # NaN is neither
            total += value
        if not inside:
            for label in range(classes):
                if not 0.0 <= values[i, label] <= 1.0:
                    return i * classes + label, -1
        if far < 0 and not abs(total - 1.0) <= 1e-6:
            far = i
    return -1, far

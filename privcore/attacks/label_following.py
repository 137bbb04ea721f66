"""Test of whether a model's predictions follow a column of labels at all, by counts of tenths."""

import math

import numpy as np
from numpy.typing import ArrayLike

_SEEN, _EXPECTED = 3.0, 6.0
"""Standard errors that must be seen, and that calibrated predictions would have shown."""


def predictions_miss_labels(records: ArrayLike, predicted: ArrayLike, observed: ArrayLike) -> bool:
    """Return whether predictions that differ much do not follow the labels.

    Labels of which the model knows nothing come true at the same rate in each tenth. The sum over
    tenths of records times (predicted - mean) times (observed - mean) is then 0 within its standard
    error, by the central limit theorem. For a calibrated model it is the predictions' variance.

    Args:
        records: shape (tenths,), predictions in each tenth on records that training did not see.
        predicted: shape (tenths,), their mean probability.
        observed: shape (tenths,), the share that came true.

    Returns:
        True where calibrated predictions would have shown at least 6 standard errors, and less than
        3 are seen. False where the predictions differ too little to say it (labels that are rare).

    *Does not say* why: another column than the model was trained on, or a model that learned noise.

    >>> predictions_miss_labels([500, 500], [0.1, 0.9], [0.5, 0.5])
    True
    >>> predictions_miss_labels([500, 500], [0.1, 0.9], [0.4, 0.6])
    False
    """
    n, p, o = (np.asarray(each, dtype=np.float64) for each in (records, predicted, observed))
    if n.size == 0 or n.sum() <= 0.0:
        return False
    rate = float(n @ o / n.sum())
    apart = p - n @ p / n.sum()
    spread = float(n @ apart**2)
    error = math.sqrt(rate * (1.0 - rate) * spread)
    if error == 0.0 or spread / error < _EXPECTED:
        return False
    return float(n @ (apart * (o - rate))) / error < _SEEN

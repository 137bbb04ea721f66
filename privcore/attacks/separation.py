"""How well numbers tell two kinds of records."""

import numpy as np
from numpy.typing import NDArray

NEARLY = 0.99
"""Share from which on numbers are said to tell both kinds."""


def separation(numbers: NDArray[np.float64], kinds: NDArray[np.bool_]) -> float:
    """Return the share of pairs of both kinds that the numbers order alike, 0.5 to 1.

    It is the area under the ROC curve, or what it lacks to 1. A missing number is less than any
    other.

    Args:
        numbers: shape (records,).
        kinds: shape (records,), of which some are true and some are not.

    >>> separation(np.array([1.0, 2.0, np.nan, 2.0]), np.array([True, True, False, False]))
    0.625
    """
    ordered = np.nan_to_num(numbers, nan=-np.inf)
    first = np.count_nonzero(kinds)
    _, places, alike = np.unique(ordered, return_inverse=True, return_counts=True)
    middle = np.cumsum(alike) - (alike - 1) / 2.0  # the rank of numbers that are the same
    ranks = float(middle[places[kinds]].sum())
    share = (ranks - first * (first + 1) / 2) / (first * (len(kinds) - first))
    return float(max(share, 1.0 - share))

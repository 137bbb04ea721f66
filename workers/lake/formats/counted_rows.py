"""Numbers of rows that trained a model, as a framework's trees keep them.

A file that was changed on purpose may say anything: no accusation rests on it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 2**53
_ROUNDED = 1e-6
_NEAR = 1e-3
"""Distances to a whole number, of a count and beside it, that sums of 32 bits come to."""


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The number of rows that trained a model.

    Attributes:
        count: as the trees say it.
        exact: False where training may have drawn a sample of its rows for the trees: then there
            were at least as many.
    """

    count: int
    exact: bool


def whole_sum(leaves: NDArray[np.float64]) -> int | None:
    """Return the sum of one tree's counts of rows by leaf, or None if these are no counts.

    Weights of rows show as leaves that are not whole, but for weights that are whole themselves.
    """
    return shared_sum(leaves, np.array([leaves.size]))


def shared_sum(leaves: NDArray[np.float64], sizes: NDArray[np.integer]) -> int | None:
    """Return the sum of counts by leaf that all trees share, or None if there is none.

    Trees that differ are of samples, or of other days' rows, where training was resumed.

    Args:
        leaves: counts of all trees, one tree after another.
        sizes: how many leaves each tree has; the last one has all that are left.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if np.any(np.diff(starts, append=leaves.size) <= 0):
        return None  # a tree without leaves
    if not np.all(np.isfinite(leaves)) or leaves.min() < 0:
        return None
    counts = np.rint(leaves)
    if np.any(np.abs(leaves - counts) > _NEAR + _ROUNDED * leaves):
        return None
    totals = np.add.reduceat(counts, starts)
    total = float(totals[0])
    return int(total) if 0 < total < _MOST and np.all(totals == total) else None


def same_count(counts: Iterable[int | None]) -> int | None:
    """Return the count that all trees share, or None; see `shared_sum`."""
    found = set(counts)
    return found.pop() if len(found) == 1 else None

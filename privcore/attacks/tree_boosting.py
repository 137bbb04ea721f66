"""How oblivious trees are chosen: by the gain of each question, from sums by leaf and bin.

Source: Chen and Guestrin, XGBoost: a scalable tree boosting system (2016), equations 5 and 6, for
the gain of a question and the value of a leaf.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

_REGULARIZATION = 3.0
"""As many records without anything left are added to each leaf."""


@njit(cache=True, nogil=True)
def boost(
    bins: NDArray[np.uint8],
    borders: NDArray[np.int64],
    left: NDArray[np.float64],
    rate: float,
    features: NDArray[np.int64],
    ranks: NDArray[np.int64],
    leaves: NDArray[np.float64],
) -> None:
    """Write what each tree asks and says.

    Args:
        bins: shape (features, records), above how many borders of its feature each value lies.
        borders: shape (features,), how many there are.
        left: shape (records, 1 + outputs), 1 and what is left to be learned, which changes.
        rate: share of a leaf's mean that it says.
        features: shape (trees, levels), written: what each level asks about.
        ranks: shape (trees, levels), written: the number of the border.
        leaves: shape (trees, 2 ** levels, outputs), 0, written.
    """
    records, width = left.shape
    trees, levels = features.shape
    bucket = borders.max() + 1
    sums = np.zeros((bins.shape[0], bucket << levels, width))
    leaf = np.empty(records, dtype=np.uint8)
    rows = np.empty(records, dtype=np.int32)
    for tree in range(trees):
        leaf[:] = 0
        rows[:] = np.arange(records)
        summed, first = records, 0
        for level in range(levels):
            feature, rank = _best(bins, borders, left, leaf, rows[:summed], first, sums)
            features[tree, level], ranks[tree, level] = feature, rank
            summed, first = 0, bucket << level
            of_feature, last, bit = bins[feature], np.uint8(rank), np.uint8(1 << level)
            for row in range(records):
                leaf[row] |= bit if of_feature[row] > last else np.uint8(0)
            for row in range(records):
                rows[min(summed, records - 1)] = row
                summed += of_feature[row] > last
        _say(left, leaf, rate, leaves[tree])


@njit(cache=True, nogil=True)
def _best(
    bins: NDArray[np.uint8],
    borders: NDArray[np.int64],
    left: NDArray[np.float64],
    leaf: NDArray[np.uint8],
    rows: NDArray[np.int32],
    first: int,
    sums: NDArray[np.float64],
) -> tuple[int, int]:
    """Return the feature and border of the largest gain; of equal ones the first.

    Numbers of records and sums of what is left, by feature, leaf and bin, are those of the level
    before. `rows` lie above its border, and their leaves begin at the place `first`: they are
    added up, and the others are what remains of the sums before.
    """
    bucket = borders.max() + 1
    width = left.shape[1]
    starts = np.empty(rows.size, dtype=np.int32)
    values = np.empty((rows.size, width))
    for place, row in enumerate(rows):
        starts[place] = np.int32(leaf[row]) * bucket
        for number in range(width):
            values[place, number] = left[row, number]
    gains, below = np.empty(bucket), np.empty((2, bucket))
    best, found, rank = -np.inf, 0, 0
    for feature in range(bins.shape[0]):
        of_feature = sums[feature, : max(2 * first, bucket)]
        _add_up(of_feature, first, starts, bins[feature], rows, values)
        gains[:] = 0.0
        for start in range(0, len(of_feature), bucket):
            _add_gains(of_feature[start : start + borders[feature] + 1], gains, below)
        for border in range(borders[feature]):
            if gains[border] > best:
                best, found, rank = gains[border], feature, border
    return found, rank


@njit(cache=True, nogil=True)
def _add_up(
    sums: NDArray[np.float64],
    first: int,
    starts: NDArray[np.int32],
    bins: NDArray[np.uint8],
    rows: NDArray[np.int32],
    values: NDArray[np.float64],
) -> None:
    """Add rows up by leaf and bin, from the place `first` on; take them from the leaves before."""
    sums[first:] = 0.0
    if values.shape[1] == 2:  # the loop below, in 0.6 of its time
        for place in range(rows.size):
            cell = starts[place] + bins[rows[place]]
            sums[cell, 0] += 1.0
            sums[cell, 1] += values[place, 1]
    else:
        for place in range(rows.size):
            cell = starts[place] + bins[rows[place]]
            for number in range(values.shape[1]):
                sums[cell, number] += values[place, number]
    for place in range(first):
        for number in range(values.shape[1]):
            sums[place, number] -= sums[place + first, number]


@njit(cache=True, nogil=True, error_model="numpy")  # no check of zero, so that vectors divide
def _add_gains(
    sums: NDArray[np.float64], gains: NDArray[np.float64], below: NDArray[np.float64]
) -> None:
    """Add what dividing one leaf explains, for each border; `below` is written over."""
    records = sums[:, 0].sum()
    if records == 0.0:
        return
    borders = len(sums) - 1
    for number in range(1, sums.shape[1]):
        whole = sums[:, number].sum()
        few, less = 0.0, 0.0
        for border in range(borders):
            few += sums[border, 0]
            less += sums[border, number]
            below[0, border], below[1, border] = few, less
        for border in range(borders):
            few, less = below[0, border], below[1, border]
            more = whole - less
            gain = gains[border] + less * less / (few + _REGULARIZATION)
            gains[border] = gain + more * more / (records - few + _REGULARIZATION)


@njit(cache=True, nogil=True)
def _say(
    left: NDArray[np.float64],
    leaf: NDArray[np.uint8],
    rate: float,
    said: NDArray[np.float64],
) -> None:
    """Write what each leaf says, a share of the mean of what is left there, and take it away."""
    records, width = left.shape
    counts = np.zeros(len(said))
    for row in range(records):
        counts[leaf[row]] += 1.0
        for number in range(1, width):
            said[leaf[row], number - 1] += left[row, number]
    for place in range(len(said)):
        for output in range(width - 1):
            said[place, output] *= rate / (counts[place] + _REGULARIZATION)
    for row in range(records):
        for number in range(1, width):
            left[row, number] -= said[leaf[row], number - 1]

"""Boosted oblivious trees over numbers: the learner of a student.

An oblivious tree asks the same question of all records at one level, so that a record's leaf is a
number of as many bits as there are levels. Trees are fitted one after the other to what the ones
before leave of the outputs, by squared error. There is no chance in it, and no library whose next
version learns otherwise: the same rows give the same trees on every machine, which is what lets an
audit be repeated.

Source: Prokhorenkova et al., CatBoost: unbiased boosting with categorical features (2018), for the
trees; Chen and Guestrin, XGBoost: a scalable tree boosting system (2016), equations 5 and 6, for
the gain of a question and the value of a leaf.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

_BORDERS = 64
_REGULARIZATION = 3.0
"""As many records without anything left are added to each leaf."""
_BLOCK = 512  # records whose features and sums stay in the fastest cache
_MOST_LEVELS = 8
_LARGEST = float(np.finfo(np.float32).max)


class TreeSize(NamedTuple):
    """The number of trees, the levels of each, and the share of a leaf that they say."""

    trees: int
    levels: int
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class ObliviousTrees:
    """Fitted trees.

    Attributes:
        used: shape (used features,), the features that differ between records, ascending.
        borders: shape (used features, borders), ascending, infinite beyond the last.
        features: shape (trees, levels), the place in `used` of what each level asks about.
        ranks: shape (trees, levels): whether the feature lies above its border of this number.
        leaves: shape (trees, 2 ** levels, outputs).
        start: shape (outputs,), what is said before the first tree.
    """

    used: NDArray[np.int64]
    borders: NDArray[np.float32]
    features: NDArray[np.int64]
    ranks: NDArray[np.int64]
    leaves: NDArray[np.float64]
    start: NDArray[np.float64]

    @classmethod
    def fit(
        cls, columns: NDArray[np.float32], outputs: NDArray[np.float64], size: TreeSize
    ) -> "ObliviousTrees | None":
        """Fit trees; None where features, or outputs, are all the same, or outputs exceed floats.

        Args:
            columns: shape (features, records), NaN where a value is missing: it lies below all.
            outputs: shape (records, outputs).
            size: of the trees.

        Raises:
            InvalidInputError: trees of more than 8 levels.
        """
        if not 1 <= size.levels <= _MOST_LEVELS:
            raise InvalidInputError("levels", size.levels, f"there are 1 to {_MOST_LEVELS}")
        found = [_borders(column) for column in columns]
        used = np.array([place for place, some in enumerate(found) if some.size], dtype=np.int64)
        alike = bool((outputs == outputs[:1]).all())
        if alike or not used.size or not np.abs(outputs).max() <= _LARGEST:
            return None
        borders = np.full((used.size, max(found[place].size for place in used)), np.inf, np.float32)
        for row, place in enumerate(used):
            borders[row, : found[place].size] = found[place]
        columns = np.ascontiguousarray(columns)
        bins = np.zeros((used.size, len(outputs)), dtype=np.uint8)
        for row, place in enumerate(used):
            _count_borders(columns[place], borders[row], bins[row])
        start = outputs.mean(axis=0)
        features, ranks = np.zeros((2, size.trees, size.levels), dtype=np.int64)
        leaves = np.zeros((size.trees, 1 << size.levels, start.size))
        left = np.column_stack([np.ones(len(outputs)), outputs - start])
        counts = np.count_nonzero(borders < np.inf, axis=1)
        _boost(bins, counts, left, size.rate, features, ranks, leaves)
        return cls(used, borders, features, ranks, leaves, start)

    def predict(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what the trees say, shape (records, outputs).

        Args:
            columns: shape (features, records), as in `fit`.
        """
        found = np.tile(self.start, (columns.shape[1], 1))
        columns = np.ascontiguousarray(columns)
        _predict(columns, self.used, self.borders, self.features, self.ranks, self.leaves, found)
        return found


def _borders(column: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return at most 64 values of a feature, of which a record may lie above; none if all are one.

    Of many values these are quantiles, in which a value that n records have weighs as sqrt(n): the
    others are told apart, too, where most records have the same.
    """
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    missing = counts.sum() < column.size
    most = _BORDERS - missing
    below = values[:-1]
    if below.size > most:
        reached = np.cumsum(np.sqrt(counts))
        wanted = np.arange(1, most + 1) * (reached[-1] / (most + 1))
        below = np.unique(below[np.minimum(np.searchsorted(reached, wanted), below.size - 1)])
    lowest = [np.float32(-np.inf)] if missing and values.size else []
    return np.unique(np.array([*lowest, *below], dtype=np.float32))


@njit(cache=True, nogil=True)
def _boost(
    bins: NDArray[np.uint8],
    borders: NDArray[np.int64],
    left: NDArray[np.float64],
    rate: float,
    features: NDArray[np.int64],
    ranks: NDArray[np.int64],
    leaves: NDArray[np.float64],
) -> None:
    """Write what each tree asks and says.

    `left`, shape (records, 1 + outputs), is 1 and what is left to be learned, which changes.
    """
    records, width = left.shape
    trees, levels = features.shape
    bucket = borders.max() + 1
    sums = np.zeros((bins.shape[0], bucket << levels, width))
    leaf = np.empty(records, dtype=np.int32)
    rows = np.empty(records, dtype=np.int32)
    for tree in range(trees):
        leaf[:] = 0
        rows[:] = np.arange(records)
        summed, first = records, 0
        for level in range(levels):
            feature, rank = _best(bins, borders, left, leaf, rows[:summed], first, sums)
            features[tree, level], ranks[tree, level] = feature, rank
            summed, first = 0, bucket << level
            for row in range(records):
                above = bins[feature, row] > rank
                leaf[row] |= np.int32(above) << level
                rows[min(summed, records - 1)] = row
                summed += above
        _say(left, leaf, rate, leaves[tree])


@njit(cache=True, nogil=True)
def _best(
    bins: NDArray[np.uint8],
    borders: NDArray[np.int64],
    left: NDArray[np.float64],
    leaf: NDArray[np.int32],
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
        starts[place] = leaf[row] * bucket
        for number in range(width):
            values[place, number] = left[row, number]
    gains = np.empty(bucket)
    best, found, rank = -np.inf, 0, 0
    for feature in range(bins.shape[0]):
        of_feature = sums[feature, : max(2 * first, bucket)]
        _add_up(of_feature, first, starts, bins[feature], rows, values)
        gains[:] = 0.0
        for start in range(0, len(of_feature), bucket):
            _add_gains(of_feature[start : start + borders[feature] + 1], gains)
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


@njit(cache=True, nogil=True)
def _add_gains(sums: NDArray[np.float64], gains: NDArray[np.float64]) -> None:
    """Add what dividing one leaf explains, for each border."""
    records = sums[:, 0].sum()
    if records == 0.0:
        return
    for number in range(1, sums.shape[1]):
        whole = sums[:, number].sum()
        few, below = 0.0, 0.0
        for border in range(len(sums) - 1):
            few += sums[border, 0]
            below += sums[border, number]
            above = whole - below
            gains[border] += below * below / (few + _REGULARIZATION)
            gains[border] += above * above / (records - few + _REGULARIZATION)


@njit(cache=True, nogil=True)
def _say(
    left: NDArray[np.float64],
    leaf: NDArray[np.int32],
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


@njit(cache=True, nogil=True)
def _predict(
    columns: NDArray[np.float32],
    used: NDArray[np.int64],
    borders: NDArray[np.float32],
    features: NDArray[np.int64],
    ranks: NDArray[np.int64],
    leaves: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Add what all trees say to `found`."""
    records = len(found)
    bins = np.zeros((used.size, _BLOCK), dtype=np.uint8)
    for start in range(0, records, _BLOCK):
        stop = min(start + _BLOCK, records)
        for feature in range(used.size):
            _count_borders(columns[used[feature], start:stop], borders[feature], bins[feature])
        _add_leaves(bins, features, ranks, leaves, found[start:stop])


@njit(cache=True, nogil=True)
def _count_borders(
    values: NDArray[np.float32], borders: NDArray[np.float32], bins: NDArray[np.uint8]
) -> None:
    """Write above how many of its feature's borders each value lies; a missing one: above none."""
    above = np.zeros(values.size, dtype=np.int32)
    for border in borders:
        if border == np.inf:
            break
        for i in range(values.size):
            above[i] += np.int32(values[i] > border)
    for i in range(values.size):
        bins[i] = above[i]


@njit(cache=True, nogil=True)
def _add_leaves(
    bins: NDArray[np.uint8],
    features: NDArray[np.int64],
    ranks: NDArray[np.int64],
    leaves: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Add each tree's leaves to what is said of a block."""
    trees, levels = features.shape
    places = np.empty(_BLOCK, dtype=np.uint8)
    for tree in range(trees):
        places[:] = 0
        for level in range(levels):
            rank, bit = np.uint8(ranks[tree, level]), np.uint8(1 << level)
            asked = bins[features[tree, level]]
            for i in range(_BLOCK):
                places[i] |= bit if asked[i] > rank else np.uint8(0)
        of_tree = leaves[tree]
        for i in range(len(found)):
            for output in range(found.shape[1]):
                found[i, output] += of_tree[places[i], output]

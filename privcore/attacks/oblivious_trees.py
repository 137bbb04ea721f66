"""CatBoost's oblivious trees over numbers, evaluated without a pool: the same answer to the bit.

An oblivious tree asks the same question of all records at one level, so that a record's leaf is a
number of as many bits as there are levels. CatBoost's own `predict` takes more than twice as long
for the trees of a student, half of it to copy records into a pool.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

_BLOCK = 512  # records whose features and sums stay in the fastest cache
_NEVER = 255  # no feature lies above this many borders
_MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, eq=False)
class ObliviousTrees:
    """Trees that were read from a CatBoost model of numeric features; all are padded to one depth.

    Attributes:
        used: shape (used features,), the features that some tree asks about, ascending.
        borders: shape (used features, borders), ascending, infinite beyond the last.
        features: shape (trees, levels), the place in `used` of what each level asks about.
        ranks: shape (trees, levels): whether the feature lies above its border of this number.
        leaves: shape (trees, outputs, 2 ** levels).
        scale: what sums of leaves are multiplied by.
        bias: shape (outputs,), what is added to them.
    """

    used: NDArray[np.int64]
    borders: NDArray[np.float32]
    features: NDArray[np.int64]
    ranks: NDArray[np.uint8]
    leaves: NDArray[np.float64]
    scale: float
    bias: NDArray[np.float64]

    @classmethod
    def of(cls, model: Any) -> "ObliviousTrees":
        """Read the trees of a fitted `catboost.CatBoost` of numeric features.

        CatBoost tells a border in six digits, and two borders may share these. So the model is
        asked in which leaf of each tree a few made-up records lie: the first has each feature at
        its lowest border, the next at the second, and so on. How many do not lie above a level's
        border is the number of its feature's borders that are no higher.

        Raises:
            InvalidInputError: trees of more than 8 levels, or features of more than 254 borders.
        """
        ladder = _ladder(model.get_borders())
        asked = [_features_of(model, tree) for tree in range(model.tree_count_)]
        levels = max(map(len, asked))
        if levels > _MOST_LEVELS or ladder.shape[1] >= _NEVER:
            rule = f"there are at most {_MOST_LEVELS} and {_NEVER - 1}"
            raise InvalidInputError("levels and borders", (levels, ladder.shape[1]), rule)
        scale, bias = model.get_scale_and_bias()
        bias = np.atleast_1d(np.asarray(bias, dtype=np.float64))
        lies = model.calc_leaf_indexes(np.ascontiguousarray(ladder.T), thread_count=1)
        used = np.unique(np.concatenate([np.array(names, dtype=np.int64) for names in asked]))
        features = np.zeros((len(asked), levels), dtype=np.int64)
        ranks = np.full((len(asked), levels), _NEVER, dtype=np.uint8)
        leaves = np.zeros((len(asked), bias.size, 1 << levels))
        values = np.asarray(model.get_leaf_values()).reshape(-1, bias.size)
        start = 0
        for tree, names in enumerate(asked):
            for level, feature in enumerate(names):
                features[tree, level] = np.searchsorted(used, feature)
                ranks[tree, level] = np.count_nonzero(lies[:, tree] >> level & 1 == 0) - 1
            stop = start + (1 << len(names))
            leaves[tree, :, : stop - start] = values[start:stop].T
            start = stop
        return cls(used, ladder[used], features, ranks, leaves, float(scale), bias)

    def predict(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what the model predicts, shape (records, outputs).

        Args:
            columns: shape (features, records), in the model's order; NaN where one is missing.
        """
        found = np.empty((columns.shape[1], self.bias.size))
        columns = np.ascontiguousarray(columns)
        _predict(columns, self.used, self.borders, self.features, self.ranks, self.leaves, found)
        return np.asarray(found * self.scale + self.bias)


def _ladder(borders: dict[int, list[float]]) -> NDArray[np.float32]:
    """Return each feature's borders, ascending, shape (features, steps); infinite beyond these."""
    steps = max(map(len, borders.values()))
    ladder = np.full((max(borders) + 1, steps), np.inf, dtype=np.float32)
    for feature, of_feature in borders.items():
        ladder[feature, : len(of_feature)] = of_feature
    return ladder


def _features_of(model: Any, tree: int) -> list[int]:
    """Return the feature of each level: CatBoost says "3, bin=0.25"."""
    told = model._get_tree_splits(tree, None)  # noqa: SLF001  # no public way but through a file
    return [int(line.partition(",")[0]) for line in told]


@njit(cache=True, nogil=True)
def _predict(
    columns: NDArray[np.float32],
    used: NDArray[np.int64],
    borders: NDArray[np.float32],
    features: NDArray[np.int64],
    ranks: NDArray[np.uint8],
    leaves: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    records, outputs = found.shape
    bins = np.zeros((used.size, _BLOCK), dtype=np.uint8)
    sums = np.empty((outputs, _BLOCK))
    for start in range(0, records, _BLOCK):
        stop = min(start + _BLOCK, records)
        for f in range(used.size):
            _count_borders(columns[used[f], start:stop], borders[f], bins[f])
        sums[:] = 0.0
        _add_leaves(bins, features, ranks, leaves, sums)
        for i in range(stop - start):
            for output in range(outputs):
                found[start + i, output] = sums[output, i]


@njit(cache=True, nogil=True)
def _count_borders(
    values: NDArray[np.float32], borders: NDArray[np.float32], bins: NDArray[np.uint8]
) -> None:
    """Write above how many of its feature's borders each value of a block lies."""
    above = np.zeros(_BLOCK, dtype=np.int32)
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
    ranks: NDArray[np.uint8],
    leaves: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add each tree's leaves to the sums of a block, tree after tree, as CatBoost adds."""
    trees, levels = features.shape
    places = np.empty(_BLOCK, dtype=np.uint8)
    for tree in range(trees):
        places[:] = 0
        for level in range(levels):
            rank, bit = ranks[tree, level], np.uint8(1 << level)
            asked = bins[features[tree, level]]
            for i in range(_BLOCK):
                places[i] |= bit if asked[i] > rank else np.uint8(0)
        for output in range(sums.shape[0]):
            of_tree = leaves[tree, output]
            for i in range(_BLOCK):
                sums[output, i] += of_tree[places[i]]

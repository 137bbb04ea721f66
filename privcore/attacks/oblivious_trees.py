"""Boosted oblivious trees over numbers: the learner of a student.

An oblivious tree asks the same question of all records at one level, so that a record's leaf is a
number of as many bits as there are levels. Trees are fitted one after the other to what the ones
before leave of the outputs, by squared error, in whole numbers. There is no chance in it, no sum
that depends on the order of the rows, and no library whose next version learns otherwise: the same
rows give the same trees on every machine, which is what lets an audit be repeated.

Trees are chosen by the gain of each question, from sums by leaf and bin. What is left to be learned
is held in whole numbers: one of 64 bits holds a sum and, in its last bits, the number of its
records. Whole numbers add up exactly. So trees do not depend on the order of the records, on
threads or on the machine, and a leaf's sums without those of its smaller half are those of the
larger one.

*No sum overflows.* Let `bits` bits hold the number of records, which is then below 2 ** bits.
Outputs are scaled to whole numbers of at most 2 ** (63 - 2 * bits). What is said of a leaf lies
between 0 and its mean, so that squares of what is left never add up to more than those of the
outputs. By Cauchy and Schwarz what is left of any records adds up to at most as much as if each
were the largest output: to less than 2 ** (63 - bits), with `bits` bits to spare for their number.

*Precision.* An output is rounded by at most 2 ** (2 * bits - 63) of the range of all: by 2 ** -33
of it for 20,000 records.

Sources: Prokhorenkova et al., CatBoost: unbiased boosting with categorical features (2018), for the
trees; Chen and Guestrin, XGBoost: a scalable tree boosting system (2016), equations 5 and 6, for
the gain of a question and the value of a leaf.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_REGULARIZATION = 3.0
"""As many records without anything left are added to each leaf."""


def boost(
    bins: NDArray[np.uint8],
    borders: NDArray[np.int64],
    outputs: NDArray[np.float64],
    trees: int,
    levels: int,
    rate: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what each tree asks and says, and what is said before the first one.

    Args:
        bins: shape (features, records), above how many borders of its feature each value lies.
        borders: shape (features,), how many there are, 1 to 255.
        outputs: shape (records, outputs), what is to be learned.
        trees: their number.
        levels: of each tree, 1 to 8.
        rate: share of a leaf's mean that it says, above 0 and at most 1.

    Returns:
        features: shape (trees, levels), what each level asks about.
        ranks: shape (trees, levels), the number of the border.
        leaves: shape (trees, 2 ** levels, outputs).
        start: shape (outputs,).
    """
    records = len(outputs)
    bits = records.bit_length()
    lowest = outputs.min(axis=0)
    _, exponent = np.frexp((outputs.max(axis=0) - lowest).max())
    scale = 63 - 2 * bits - int(exponent)
    wanted = np.rint(np.ldexp(outputs - lowest, scale)).astype(np.int64)
    start = wanted.sum(axis=0) // records
    left = np.ascontiguousarray(((wanted - start) << bits | 1).T)
    firsts = np.cumsum(np.append(0, borders + 1))
    features, ranks = questions = np.zeros((2, trees, levels), dtype=np.int64)
    leaves = np.zeros((trees, 1 << levels, start.size), dtype=np.int64)
    _boost(bins, firsts, left, bits, rate, questions, leaves)
    return features, ranks, np.ldexp(leaves, -scale), lowest + np.ldexp(start, -scale)


@njit(cache=True, nogil=True)
def _boost(
    bins: NDArray[np.uint8],
    firsts: NDArray[np.int64],
    left: NDArray[np.int64],
    bits: int,
    rate: float,
    questions: NDArray[np.int64],
    leaves: NDArray[np.int64],
) -> None:
    """Write questions and leaves; `left` changes. A feature's bins are cells from `firsts` on."""
    outputs, records = left.shape
    _, trees, levels = questions.shape
    cells = np.empty((records, len(bins)), dtype=np.uint32)
    for feature in range(len(bins)):
        for row in range(records):
            cells[row, feature] = firsts[feature] + bins[feature, row]
    sums = np.zeros((outputs, 1 << levels, firsts[-1]), dtype=np.int64)
    leaf = np.zeros(records, dtype=np.uint8)
    rows = np.arange(records).astype(np.uint32)
    for output in range(outputs):
        _add_up(sums[output, :1], rows, leaf, cells, left[output], firsts)
    for tree in range(trees):
        leaf[:] = 0
        for level in range(levels):
            feature, rank = _best(sums, 1 << level, firsts, bits)
            questions[0, tree, level], questions[1, tree, level] = feature, rank
            of_feature, last, bit = bins[feature], np.uint8(rank), np.uint8(1 << level)
            for row in range(records):
                leaf[row] |= bit if of_feature[row] > last else np.uint8(0)
            smaller = _smaller_halves(sums[0, : 1 << level], firsts[feature] + rank, bits)
            count = 0
            for row in range(records):
                rows[count] = row
                count += smaller[leaf[row]]
            for output in range(outputs):
                _halve(sums[output], smaller, rows[:count], leaf, cells, left[output], firsts)
        for output in range(outputs):
            _say(sums[output], left[output], leaf, bits, rate, leaves[tree, :, output])


@njit(cache=True, nogil=True, error_model="numpy")  # no check of zero, so that vectors divide
def _best(
    sums: NDArray[np.int64], leaves: int, firsts: NDArray[np.int64], bits: int
) -> tuple[int, int]:
    """Return the feature and border of the largest gain; of equal ones the first."""
    mask = (np.int64(1) << bits) - 1
    gains = np.zeros(sums.shape[2])
    for output in range(len(sums)):
        for place in range(leaves):
            of_leaf = sums[output, place]
            records, whole = float(of_leaf[-1] & mask), float(of_leaf[-1] >> bits)
            for cell in range(gains.size):
                few, less = float(of_leaf[cell] & mask), float(of_leaf[cell] >> bits)
                more = whole - less
                below = less * less / (few + _REGULARIZATION)
                gains[cell] += below + more * more / (records - few + _REGULARIZATION)
    best, found, rank = -np.inf, 0, 0
    for feature in range(firsts.size - 1):
        for cell in range(firsts[feature], firsts[feature + 1] - 1):
            if gains[cell] > best:
                best, found, rank = gains[cell], feature, cell - firsts[feature]
    return found, rank


@njit(cache=True, nogil=True)
def _smaller_halves(sums: NDArray[np.int64], border: int, bits: int) -> NDArray[np.uint8]:
    """Return by new leaf whether it is the smaller half of its old one."""
    mask = (np.int64(1) << bits) - 1
    smaller = np.zeros(2 * len(sums), dtype=np.uint8)
    for place in range(len(sums)):
        above_is = 2 * (sums[place, border] & mask) > sums[place, -1] & mask
        smaller[place + len(sums) if above_is else place] = 1
    return smaller


@njit(cache=True, nogil=True)
def _halve(
    sums: NDArray[np.int64],
    smaller: NDArray[np.uint8],
    rows: NDArray[np.uint32],
    leaf: NDArray[np.uint8],
    cells: NDArray[np.uint32],
    left: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> None:
    """Make sums by old leaf those by new leaf: `rows` of smaller halves are added up."""
    old = smaller.size // 2
    added = sums[old : 2 * old]
    added[:] = 0
    _add_up(added, rows, leaf, cells, left, firsts)
    for place in range(old):
        one, other = sums[place], added[place]
        for cell in range(one.size):
            one[cell] -= other[cell]
        if smaller[place]:
            for cell in range(one.size):
                one[cell], other[cell] = other[cell], one[cell]


@njit(cache=True, nogil=True)
def _add_up(
    sums: NDArray[np.int64],
    rows: NDArray[np.uint32],
    leaf: NDArray[np.uint8],
    cells: NDArray[np.uint32],
    left: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> None:
    """Add rows up by old leaf, for each feature over all bins up to each of them."""
    for place in range(rows.size):
        row = rows[place]
        of_leaf, of_row, value = sums[leaf[row] & (len(sums) - 1)], cells[row], left[row]
        for feature in range(of_row.size):
            of_leaf[of_row[feature]] += value
    for place in range(len(sums)):
        of_leaf = sums[place]
        for feature in range(firsts.size - 1):
            for cell in range(firsts[feature] + 1, firsts[feature + 1]):
                of_leaf[cell] += of_leaf[cell - 1]


@njit(cache=True, nogil=True)
def _say(
    sums: NDArray[np.int64],
    left: NDArray[np.int64],
    leaf: NDArray[np.uint8],
    bits: int,
    rate: float,
    said: NDArray[np.int64],
) -> None:
    """Write what each leaf says, a share of its mean, and take it away.

    What is left then, of all leaves together, are the sums of the next tree's first leaf.
    """
    mask = (np.int64(1) << bits) - 1
    root = np.zeros(sums.shape[1], dtype=np.int64)
    for place in range(said.size):
        of_leaf = sums[place]
        records, whole = of_leaf[-1] & mask, of_leaf[-1] >> bits
        said[place] = np.int64(rate * whole / (records + _REGULARIZATION))  # towards zero
        taken = said[place] << bits
        for cell in range(root.size):
            root[cell] += of_leaf[cell] - (of_leaf[cell] & mask) * taken
    for cell in range(root.size):
        sums[0, cell] = root[cell]
    for row in range(leaf.size):
        left[row] -= said[leaf[row]] << bits


_BORDERS = 64
_BLOCK = 512  # records whose features and sums stay in the fastest cache
_TOGETHER = 5  # trees whose leaves are added at once
_LARGEST = float(np.finfo(np.float32).max)


class TreeSize(NamedTuple):
    """The number of trees, the levels of each (1 to 8), and the share of a leaf that they say.

    The share is above 0 and at most 1: above it, sums of what is left could overflow.
    """

    trees: int
    levels: int
    rate: float


class CodeTables(NamedTuple):
    """Features that trees read: numbers at their place, and codes by a table.

    Attributes:
        places: shape (used features,), of a number's column, or behind all of them a code's.
        bins: shape (used features, codes + 1), of codes: above how many borders each lies.
    """

    places: NDArray[np.int64]
    bins: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ObliviousTrees:
    """Fitted trees.

    Attributes:
        used: shape (used features,), the features that trees ask about, ascending.
        borders: shape (used features, borders), those that trees ask about, ascending, infinite
            beyond the last.
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
        """
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
        counts = np.count_nonzero(borders < np.inf, axis=1)
        features, ranks, *said = boost(bins, counts, outputs, *size)
        return cls(*_asked(used, borders, features, ranks), *said)

    def predict(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what the trees say, shape (records, outputs).

        Args:
            columns: shape (features, records), as in `fit`.
        """
        found = np.empty((columns.shape[1], self.start.size))
        nothing = np.zeros((0, columns.shape[1]), dtype=np.int64)
        tables = self.tabulated([], len(columns))
        self.write(found, columns, nothing, tables, rows=np.arange(columns.shape[1]))
        return found

    def tabulated(self, values: Sequence[NDArray[np.float64]], numbers: int) -> "CodeTables":
        """Return above how many borders each code's values lie, for features that codes decide.

        Args:
            values: of each column of codes, what each code is to the trees, shape (codes + 1,
                features); the last is of codes beyond. These features follow the first ones.
            numbers: of features that come first, which are no codes.
        """
        columns = [(place, column) for place, each in enumerate(values) for column in each.T]
        width = max((len(column) for _, column in columns), default=1)
        places, bins = self.used.copy(), np.zeros((self.used.size, width), dtype=np.uint8)
        for row in np.flatnonzero(self.used >= numbers):
            code, column = columns[self.used[row] - numbers]
            places[row] = numbers + code
            padded = np.full(width, column[-1], dtype=np.float32)
            padded[: len(column)] = column
            _count_borders(padded, self.borders[row], bins[row])
        return CodeTables(places, bins)

    def write(
        self,
        found: NDArray[np.float64],
        columns: NDArray[np.float32],
        codes: NDArray[np.int64],
        tables: "CodeTables",
        *,
        rows: NDArray[np.int64],
    ) -> None:
        """Write what the trees say of some records.

        Args:
            found: shape (records, outputs), written at `rows`.
            columns: shape (numbers, records), the first features.
            codes: shape (columns of codes, records), of which the others are made.
            tables: `tabulated`, with as many numbers.
            rows: shape (some records,).
        """
        _predict(
            np.ascontiguousarray(columns),
            np.ascontiguousarray(codes),
            rows,
            tables,
            (self.borders, self.features, self.ranks, self.leaves, self.start),
            found,
        )


def _asked(
    used: NDArray[np.int64],
    borders: NDArray[np.float32],
    features: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Return features, borders and questions without the borders that no tree asks about."""
    asked = np.zeros(borders.shape, dtype=np.bool_)
    asked[features, ranks] = True
    kept = np.flatnonzero(asked.any(axis=1))
    fewer = np.full((kept.size, int(asked.sum(axis=1).max())), np.inf, dtype=np.float32)
    for row, place in enumerate(kept):
        some = borders[place, asked[place]]
        fewer[row, : some.size] = some
    ranks = (np.cumsum(asked, axis=1) - 1)[features, ranks]
    return used[kept], fewer, np.searchsorted(kept, features), ranks


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
def _predict(
    columns: NDArray[np.float32],
    codes: NDArray[np.int64],
    rows: NDArray[np.int64],
    tables: CodeTables,
    trees: tuple[
        NDArray[np.float32],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.float64],
        NDArray[np.float64],
    ],
    found: NDArray[np.float64],
) -> None:
    """Write what all trees say of some rows."""
    places, of_codes = tables
    borders, features, ranks, leaves, start = trees
    bins = np.zeros((places.size, _BLOCK), dtype=np.uint8)
    values = np.empty(_BLOCK, dtype=np.float32)
    said = np.empty((_BLOCK, start.size))
    last = of_codes.shape[1] - 1
    for first in range(0, rows.size, _BLOCK):
        some = rows[first : first + _BLOCK]
        for feature in range(places.size):
            place = places[feature]
            if place < len(columns):
                for i in range(some.size):
                    values[i] = columns[place, some[i]]
                _count_borders(values[: some.size], borders[feature], bins[feature])
            else:
                for i in range(some.size):
                    code = codes[place - len(columns), some[i]]
                    bins[feature, i] = of_codes[feature, code if 0 <= code < last else last]
        for i in range(_BLOCK):  # one array into another takes two seconds to compile
            for output in range(start.size):
                said[i, output] = start[output]
        _add_leaves(bins, features, ranks, leaves, said[: some.size])
        for i in range(some.size):
            for output in range(start.size):
                found[some[i], output] = said[i, output]


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
    places = np.empty((_TOGETHER, _BLOCK), dtype=np.uint8)
    for first in range(0, trees, _TOGETHER):  # one after the other, as all sums are rounded
        several = min(_TOGETHER, trees - first)
        places[:] = 0
        for place in range(several):
            of_tree = places[place]
            for level in range(levels):
                rank, bit = np.uint8(ranks[first + place, level]), np.uint8(1 << level)
                asked = bins[features[first + place, level]]
                for i in range(_BLOCK):
                    of_tree[i] |= bit if asked[i] > rank else np.uint8(0)
        of = leaves[first : first + several]
        if several == _TOGETHER and found.shape[1] == 1:  # the loop below, in a quarter of its time
            for i in range(len(found)):
                one, two = of[0, places[0, i], 0], of[1, places[1, i], 0]
                three, four = of[2, places[2, i], 0], of[3, places[3, i], 0]
                five = of[4, places[4, i], 0]
                found[i, 0] = found[i, 0] + one + two + three + four + five
        else:
            for place in range(several):
                for i in range(len(found)):
                    for output in range(found.shape[1]):
                        found[i, output] += of[place, places[place, i], output]

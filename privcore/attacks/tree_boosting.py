"""How oblivious trees are chosen: by the gain of each question, from sums by leaf and bin.

What is left to be learned is held in whole numbers: one of 64 bits holds a sum and, in its last
bits, the number of its records. Whole numbers add up exactly. So trees do not depend on the order
of the records, on threads or on the machine, and a leaf's sums without those of its smaller half
are those of the larger one.

*No sum overflows.* Let `bits` bits hold the number of records, which is then below 2 ** bits.
Outputs are scaled to whole numbers of at most 2 ** (63 - 2 * bits). What is said of a leaf lies
between 0 and its mean, so that squares of what is left never add up to more than those of the
outputs. By Cauchy and Schwarz what is left of any records adds up to at most as much as if each
were the largest output: to less than 2 ** (63 - bits), with `bits` bits to spare for their number.

*Precision.* An output is rounded by at most 2 ** (2 * bits - 63) of the range of all: by 2 ** -33
of it for 20,000 records.

Source: Chen and Guestrin, XGBoost: a scalable tree boosting system (2016), equations 5 and 6, for
the gain of a question and the value of a leaf.
"""

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
    sums[0] = root
    for row in range(leaf.size):
        left[row] -= said[leaf[row]] << bits

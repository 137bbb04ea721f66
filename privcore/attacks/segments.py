"""Segments of records: a tree of splits on features, chosen by how far a model moved.

A leak of some records is averaged away in the bound of all. Where a model remembers labels, its
answers move away from what its earlier state, or a student of it, would say. A tree finds regions
of the features in which they moved far. A model may also move alike everywhere and know labels of
some records alone, so records are divided by every single feature, too. Whether labels leaked in a
segment is for its bound to say.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.student import Context
from privcore.exceptions import InvalidInputError

MOST_LEAVES = 12
MOST_FEATURES = 24
"""Every segment more costs all others some of the significance."""

_PARTS = 4
_WORDS = 7
"""Parts of a feature of numbers, and the most frequent categories of another, beside all others."""

_BORDERS = 32
_CUT = 0.98  # of movements, the largest are taken for this quantile
_DIGITS = 4
"""Significant digits of a border, so that people can read it."""


@dataclass(frozen=True, slots=True)
class Split:
    """A question about one feature.

    Attributes:
        column: which of the numbers, or which of the codes.
        border: of a number: whether it is at most this; None of a code.
        code: of a code: whether it is this one; None of a number.
    """

    column: int
    border: float | None = None
    code: int | None = None

    def holds(self, context: Context) -> NDArray[np.bool_]:
        """Return whether the answer is yes, shape (records,); no where a number is missing."""
        if self.border is not None:
            return np.asarray(
                _in_four_bytes(context.numbers[:, self.column]) <= np.float32(self.border)
            )
        return np.asarray(context.codes[:, self.column] == self.code)


def _in_four_bytes(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return numbers as trees compare them, so that a border in four digits equals its numbers."""
    with np.errstate(over="ignore"):  # what no float of four bytes holds is infinite
        return numbers.astype(np.float32)


Conditions = tuple[tuple[Split, bool], ...]
"""Questions and their answers, all of which a segment's records give."""


@dataclass(frozen=True, slots=True)
class SegmentTree:
    """Segments of all records, none of which lies in two.

    Attributes:
        leaves: shape (segments,), the conditions of each.
    """

    leaves: tuple[Conditions, ...]

    def segments(self, context: Context) -> NDArray[np.int64]:
        """Return each record's segment, shape (records,), an index into `leaves`."""
        found = np.full(len(context.numbers), -1, dtype=np.int64)
        for place, conditions in enumerate(self.leaves):
            inside = np.ones(found.size, dtype=np.bool_)
            for split, answer in conditions:
                inside &= split.holds(context) == answer
            found[inside] = place
        return found


def fit_segments(
    context: Context, movement: NDArray[np.float64], *, share: float
) -> tuple[SegmentTree, ...]:
    """Return divisions of all records in whose segments a model may have moved unlike elsewhere.

    The first is a tree over all features. Its splits are chosen greedily, each the one that
    explains most of the movements' variance, until there are `MOST_LEAVES` segments or none can be
    split. The others divide by one feature each: of at most `MOST_FEATURES` features those that
    explain most of the variance.

    *Why it is valid.* Features and the model's answers choose the splits, and no label or arm.
    Given the model and the features the segments are fixed, so every bound of a segment has the
    validity of a bound of all records. Which of the segments are named is another choice, which
    `name_segments` pays for.

    *Does not say* that labels leak where a model moved: it also moves where the world does.

    Args:
        context: of a sample of the records, of both arms by one rule.
        movement: shape (records,), at least 0: how far the model's answer is from its reference.
        share: every segment holds at least this share of the sample.
    """
    if movement.shape != (len(context.numbers),):
        raise InvalidInputError("movement", movement.shape, "one number for each record")
    if not 0.0 < share <= 1.0:
        raise InvalidInputError("share", share, "a share is in (0, 1]")
    if not movement.size:
        return (SegmentTree(((),)),)
    moved = np.minimum(movement, np.quantile(movement, _CUT))
    return (_tree(context, moved, share), *_by_feature(context, moved))


def _by_feature(context: Context, moved: NDArray[np.float64]) -> list[SegmentTree]:
    """Return the divisions by one feature that explain most, in the order of the features."""
    found = []
    for column, values in enumerate(context.numbers.T):
        found.append(_chain([Split(column, border=at) for at in _borders(values, _PARTS).tolist()]))
    for column, codes in enumerate(context.codes.T):
        words, counts = np.unique(codes[codes >= 0], return_counts=True)
        frequent = words[np.argsort(-counts, kind="stable")[:_WORDS]]
        found.append(_chain([Split(column, code=code) for code in frequent.tolist()]))
    several = [tree for tree in found if len(tree.leaves) > 1]
    explained = [-_between(tree.segments(context), moved) for tree in several]
    chosen = np.sort(np.argsort(explained, kind="stable")[:MOST_FEATURES])
    return [several[place] for place in chosen.tolist()]


def _chain(splits: list[Split]) -> SegmentTree:
    """Return the tree that asks one question after the other until the answer is yes."""
    leaves: list[Conditions] = []
    before: Conditions = ()
    for split in splits:
        leaves.append((*before, (split, True)))
        before = (*before, (split, False))
    return SegmentTree((*leaves, before))


def _between(groups: NDArray[np.int64], moved: NDArray[np.float64]) -> float:
    """Return the sum of squares between groups."""
    records, sums = np.bincount(groups), np.bincount(groups, moved)
    means = sums / np.maximum(records, 1) - moved.mean()
    return float(np.sum(records * means**2))


def _tree(context: Context, moved: NDArray[np.float64], share: float) -> SegmentTree:
    """Return the greedy tree over all features."""
    everyone: NDArray[np.int64] = np.arange(moved.size)
    fewest = max(1, int(np.ceil(share * moved.size)))
    borders = [_borders(column, _BORDERS) for column in context.numbers.T]
    final: dict[int, Conditions] = {0: ()}
    open_: list[tuple[float, int, Split, NDArray[np.int64]]] = []

    def consider(place: int, rows: NDArray[np.int64]) -> None:
        gain, split = _best(context.some(rows), moved[rows], borders, fewest)
        if split is not None:
            heapq.heappush(open_, (-gain, place, split, rows))

    consider(0, everyone)
    places = 1
    while open_ and len(final) < MOST_LEAVES:
        _, place, split, rows = heapq.heappop(open_)
        conditions = final.pop(place)
        yes = split.holds(context.some(rows))
        for answer, some in ((True, rows[yes]), (False, rows[~yes])):
            final[places] = (*conditions, (split, answer))
            consider(places, some)
            places += 1
    return SegmentTree(tuple(final[place] for place in sorted(final)))


def _borders(column: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """Return where a column of numbers may be split: between equal shares of the sample."""
    finite = column[np.isfinite(column)]
    if not finite.size:
        return np.zeros(0)
    quantiles = np.quantile(finite, np.arange(1, parts) / parts, method="lower")
    readable = np.array([float(f"{value:.{_DIGITS}g}") for value in quantiles.tolist()])
    return np.unique(readable)


def _best(
    context: Context, moved: NDArray[np.float64], borders: list[NDArray[np.float64]], fewest: int
) -> tuple[float, Split | None]:
    """Return the split that explains most of the variance, and how much; None where none does."""
    best, found = 1e-9 * float(np.sum(moved**2)), None
    for split, inside, total in _candidates(context, moved, borders):
        outside = moved.size - inside
        if min(inside, outside) < fewest:
            continue
        apart = total / inside - (moved.sum() - total) / outside
        gain = float(inside * outside / moved.size * apart**2)
        if gain > best:
            best, found = gain, split
    return best, found


def _candidates(
    context: Context, moved: NDArray[np.float64], borders: list[NDArray[np.float64]]
) -> Iterator[tuple[Split, int, float]]:
    """Yield splits, with how many records say yes and the sum of their movements."""
    for column, edges in enumerate(borders):
        if not edges.size:
            continue
        # NaN is above every border.
        numbers = _in_four_bytes(context.numbers[:, column])
        place = np.searchsorted(_in_four_bytes(edges), numbers, side="left")
        records = np.cumsum(np.bincount(place, minlength=edges.size + 1))
        sums = np.cumsum(np.bincount(place, moved, minlength=edges.size + 1))
        for number, edge in enumerate(edges.tolist()):
            yield Split(column, border=edge), int(records[number]), float(sums[number])
    for column in range(context.codes.shape[1]):
        codes = context.codes[:, column]
        known = codes >= 0
        records = np.bincount(codes[known])
        sums = np.bincount(codes[known], moved[known])
        for code in np.flatnonzero(records).tolist():
            yield Split(column, code=code), int(records[code]), float(sums[code])

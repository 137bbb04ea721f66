"""How many holdout records of a stratum stand for the training records that are past a cut.

What decides are counts past the cut in both arms, and no label (`privcore.attacks.matching` has the
lemmas).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
class Side:
    """Records of a stratum that are predicted to be on one side, past a cut.

    Attributes:
        group: of the stratum.
        holdout: holdout records of the stratum.
        chosen: the training cells.
        records: training records in them.
        alike: holdout records past the same cut.
        expected: holdout records that were past it if they were the training records' share.
        variance: of `alike` less `expected`, where chance alone divided the arms.
    """

    group: int
    holdout: int
    chosen: NDArray[np.bool_]
    records: int
    alike: int
    expected: float
    variance: float


def explained_by_chance(sides: Sequence[Side]) -> bool:
    """Return whether the holdout has no more records past the cut in all strata than by chance."""
    excess = sum(side.alike - side.expected for side in sides)
    return excess <= _DEVIATIONS * math.sqrt(sum(side.variance for side in sides)) + 1e-9


def wanted_controls(sides: Sequence[Side]) -> NDArray[np.int64]:
    """Return how many holdout records of each stratum stand for its training records of a side.

    A stratum has few of them, and three standard deviations less leave none (`held`). So where
    fewer of several neighbours pass the cut together than chance explains, these together have
    their share less three standard deviations of their sum, spread by their holdout's size.
    """
    by_chance = explained_by_chance(sides)
    counts = np.array([held(side, by_chance=by_chance) for side in sides], dtype=np.int64)
    for first, last in neighbours(sides):
        some = slice(first, last)
        lacking = _least_share(sides[some]) - int(counts[some].sum())
        if lacking >= 1.0:
            sizes = np.array([side.holdout * bool(side.records) for side in sides[some]])
            even = sizes * ((lacking + counts[some].sum()) / sizes.sum())
            counts[some] += spread(math.floor(lacking), np.maximum(even - counts[some], 0.0))
    return counts


def neighbours(sides: Sequence[Side]) -> Iterator[tuple[int, int]]:
    """Yield runs of strata of one group, each the shortest whose share less chance is a half."""
    first = 0
    for last in range(1, len(sides) + 1):
        ends = last == len(sides) or sides[last].group != sides[first].group
        some = sides[first:last]
        if ends or _least_share(some) >= sum(side.expected for side in some) / 2.0 > 0.0:
            yield first, last
            first = last


def _least_share(sides: Sequence[Side]) -> float:
    """Return the share of some strata's holdout less three standard deviations."""
    chance = _DEVIATIONS * math.sqrt(sum(side.variance for side in sides))
    return sum(side.expected for side in sides) - chance + 1e-9


def spread(whole: float, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers with a sum, rounded down, in proportion to weights; one is above 0."""
    reached = np.floor(np.cumsum(weights) * (whole / weights.sum()) + 1e-9)
    return np.asarray(np.diff(reached, prepend=0.0).astype(np.int64))


def held(side: Side, *, by_chance: bool) -> int:
    """Return how many holdout records of a stratum stand for the training records of a side.

    Where chance explains how many pass the training records' own cut, all of these. To cut chance's
    excess by rank would drop the least sure ones; where a target is surest where it is wrong, that
    adds up over strata and nights. Where more pass than chance explains (three standard deviations
    in the stratum, or in the sum over strata), memory has made training records less sure, and the
    share decides, by rank. Where fewer pass than that, memory has lifted training records: then
    values do not compare, and the share less three standard deviations is taken, which errs towards
    silence.
    """
    if not side.records:
        return 0
    chance = _DEVIATIONS * math.sqrt(side.variance)
    most = max(side.alike, math.floor(side.expected - chance + 1e-9), 0)
    if by_chance and side.alike <= side.expected + chance + 1e-9:
        return most
    return min(most, math.floor(side.expected + 1e-9))

"""Naming the label outright: which label did training lift most above the proxy?

The label-inference game hides a bit and asks for it. Here nothing is drawn: for each record the
adversary names the label whose log-odds the target raised most over the proxy's, and is right or
wrong. Without memorisation it is right at the proxy's probability of that label; how much more
often it is right is what training gave away.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.exceptions import InvalidInputError

FLOOR = 1e-6
"""Probabilities are held between this and one minus this before their log-odds are taken."""

_PRIOR_STEPS = 16  # bins per unit of log-odds
_LIFT_STEPS = 8
_LARGEST = 14.0  # above the log-odds of 1 - FLOOR
_PRIORS = int(2 * _LARGEST * _PRIOR_STEPS)
_LIFTS = int(2 * _LARGEST * _LIFT_STEPS)
LIFT_CELLS = _PRIORS * _LIFTS * 2

# Odds fall into bins of equal width in their logarithm without one being taken for each: their
# leading bits name the bin below at most one edge, and the edge decides.
_PRIOR_EDGES: NDArray[np.float64] = np.exp(np.arange(_PRIORS + 1) / _PRIOR_STEPS - _LARGEST)
_LIFT_EDGES: NDArray[np.float64] = np.exp(np.arange(_LIFTS + 1) / _LIFT_STEPS)
_SHIFT = 48  # sixteen leading values to an octave, each narrower than the narrowest bin


def _bins_below(edges: NDArray[np.float64]) -> tuple[int, NDArray[np.int64]]:
    """Return the first leading value and, for each from it on, the bin of its smallest number."""
    first, last = (edges[[0, -1]].view(np.int64) >> _SHIFT).tolist()
    smallest = (np.arange(first, last + 1, dtype=np.int64) << _SHIFT).view(np.float64)
    return first, np.maximum(np.searchsorted(edges, smallest, side="right") - 1, 0)


_PRIOR_FIRST, _PRIOR_BINS = _bins_below(_PRIOR_EDGES)
_LIFT_FIRST, _LIFT_BINS = _bins_below(_LIFT_EDGES)


@dataclass(frozen=True, slots=True, eq=False)
class LiftTally:
    """Counts of wrong and right names by the proxy's log-odds and by lift; it adds like a `Tally`.

    Args:
        records: records that played, also those where nothing was lifted and nothing is named.
        counts: shape (prior bins, lift bins, 2), wrong before right.
    """

    records: int
    counts: NDArray[np.int64]

    @classmethod
    def zero(cls) -> "LiftTally":
        """Return the tally of no records, the identity of addition."""
        return cls(0, np.zeros((_PRIORS, _LIFTS, 2), dtype=np.int64))

    def __add__(self, other: "LiftTally") -> "LiftTally":
        """Return the tally of both sets of records."""
        if self.records == 0 or other.records == 0:  # nothing to add, and no arrays to copy
            return self if other.records == 0 else other
        return LiftTally(self.records + other.records, self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        """Whether every count is the same."""
        return (
            isinstance(other, LiftTally)
            and self.records == other.records
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def cells(self) -> "LiftCells":
        """Return the occupied cells as arrays."""
        prior, lift = np.nonzero(self.counts.sum(axis=2))
        return LiftCells(
            # The upper edge of the prior errs towards silence, as a limit must. The lift is only
            # believed, and any belief is valid: its bin's middle is nearest.
            prior=(prior + 1) / _PRIOR_STEPS - _LARGEST,
            lift=(lift + 0.5) / _LIFT_STEPS,
            wrong=self.counts[prior, lift, 0].astype(np.float64),
            right=self.counts[prior, lift, 1].astype(np.float64),
        )


@dataclass(frozen=True, slots=True)
class LiftCells:
    """Occupied cells of a `LiftTally`; every array has shape (cells,).

    Attributes:
        prior: log-odds of the named label without memorisation, at least the proxy's.
        lift: by how much the target raised them, within 1/16.
        wrong: how many names were wrong.
        right: how many were right.
    """

    prior: NDArray[np.float64]
    lift: NDArray[np.float64]
    wrong: NDArray[np.float64]
    right: NDArray[np.float64]


def label_lifts(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    shift: float = 0.0,
) -> LiftTally:
    """Name each record's most lifted label and count who was right.

    The choice of the label uses both models' probabilities, never the label itself.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.
        shift: bound on the total-variation distance between a record's true label distribution
            and the proxy's; it is added to the proxy's probability of the named label.

    Raises:
        InvalidInputError: as `label_inference`, or a shift outside [0, 1].
    """
    # What is named nowhere counts in a cell of its own, before all others.
    cells = lift_cells(target, proxy, labels, shift=shift)
    counts = np.bincount(cells + 1, minlength=LIFT_CELLS + 1)[1:]
    return LiftTally(int(labels.size), counts.reshape(_PRIORS, _LIFTS, 2))


def lift_cells(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    shift: float = 0.0,
) -> NDArray[np.int64]:
    """Return where each record counts in a flat `LiftTally`, shape (records,); -1 for nowhere.

    Args and errors are those of `label_lifts`.
    """
    if not 0.0 <= shift <= 1.0:
        raise InvalidInputError("shift", shift, "a total-variation distance lies in [0, 1]")
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    return _cells(target, proxy, labels.astype(np.int64, copy=False), shift)


@njit(cache=True, inline="always")
def _held(probability: float) -> float:
    return min(max(probability, FLOOR), 1.0 - FLOOR)


@njit(cache=True, inline="always")
def _bin(value: float, first: int, bins: NDArray[np.int64], edges: NDArray[np.float64]) -> int:
    """Return the bin of a number between the outermost edges."""
    below = int(bins[(np.float64(value).view(np.int64) >> _SHIFT) - first])
    return below + int(value >= edges[below + 1])


@njit(cache=True, nogil=True)
def _cells(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.int64],
    shift: float,
) -> NDArray[np.int64]:
    cells = np.full(target.shape[0], -1, dtype=np.int64)
    for i in range(target.shape[0]):
        most, best, named = 1.0, 0.0, -1
        for label in range(target.shape[1]):
            after, before = _held(target[i, label]), _held(proxy[i, label] + shift)
            # One division: the ratio of the odds.
            raised = after * (1.0 - before) / (before * (1.0 - after))
            if raised > most:
                most, best, named = raised, before, label
        if named >= 0:
            row = _bin(best / (1.0 - best), _PRIOR_FIRST, _PRIOR_BINS, _PRIOR_EDGES)
            column = _bin(most, _LIFT_FIRST, _LIFT_BINS, _LIFT_EDGES)
            cells[i] = (row * _LIFTS + column) * 2 + int(labels[i] == named)
    return cells

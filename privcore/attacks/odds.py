"""Counts of what both models say of each record: the input of predictions, matching and bets.

Of each record one class is looked at, chosen without its label: class 1 where there are two, else
the class whose probability the target raised most above the proxy's. Counted are the proxy's and
the target's log-odds of that class, and whether it is the label. Which label to predict is decided
afterwards, from the counts, so that a recalibrated proxy costs no second pass over the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks.counts import Counts
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels, check_pair

FLOOR = 1e-6
"""Probabilities are held between this and one minus this before their log-odds are taken."""

_PROXY_STEPS = 16  # bins per unit of log-odds
_TARGET_STEPS = 8
LARGEST = 14.0  # above the log-odds of 1 - FLOOR
PROXY_BINS = int(2 * LARGEST * _PROXY_STEPS)
"""Bins of the proxy's log-odds."""

_TARGET_BINS = int(2 * LARGEST * _TARGET_STEPS)
ODDS_CELLS = PROXY_BINS * _TARGET_BINS * 2
_SPARSE = 4
"""A tally is pickled by its occupied cells if at most one of so many is."""

# Odds fall into bins of equal width in their logarithm without one being taken for each: their
# leading bits name the bin below at most one edge, and the edge decides.
_PROXY_EDGES: NDArray[np.float64] = np.exp(np.arange(PROXY_BINS + 1) / _PROXY_STEPS - LARGEST)
_TARGET_EDGES: NDArray[np.float64] = np.exp(np.arange(_TARGET_BINS + 1) / _TARGET_STEPS - LARGEST)
_SHIFT = 48  # sixteen leading values to an octave, each narrower than the narrowest bin


def _bins_below(edges: NDArray[np.float64]) -> tuple[int, NDArray[np.int64]]:
    """Return the first leading value and, for each from it on, the bin of its smallest number."""
    first, last = (edges[[0, -1]].view(np.int64) >> _SHIFT).tolist()
    smallest = (np.arange(first, last + 1, dtype=np.int64) << _SHIFT).view(np.float64)
    return first, np.maximum(np.searchsorted(edges, smallest, side="right") - 1, 0)


_NO_COUNTS: NDArray[np.int64] = np.zeros((PROXY_BINS, _TARGET_BINS, 2), dtype=np.int64)
_NO_COUNTS.flags.writeable = False
_PROXY_FIRST, _PROXY_BELOW = _bins_below(_PROXY_EDGES)
_TARGET_FIRST, _TARGET_BELOW = _bins_below(_TARGET_EDGES)


@dataclass(frozen=True, slots=True, eq=False)
class OddsTally(Counts):
    """Counts by the proxy's log-odds, the target's, and the label; it adds like a `Tally`.

    Args:
        records: records that were counted.
        counts: shape (proxy bins, target bins, 2): label another, before label the class.
    """

    records: int
    counts: NDArray[np.int64]

    @classmethod
    def zero(cls) -> "OddsTally":
        """Return the tally of no records, the identity of addition; all share their array."""
        return cls(0, _NO_COUNTS)

    @classmethod
    def of_cells(cls, cells: NDArray[np.int64]) -> "OddsTally":
        """Return the tally of records that count in these cells (`odds_cells`)."""
        counts = np.bincount(cells, minlength=ODDS_CELLS)
        return cls(int(cells.size), counts.reshape(PROXY_BINS, _TARGET_BINS, 2))

    def __add__(self, other: "OddsTally") -> "OddsTally":
        """Return the tally of both sets of records."""
        if self.records == 0 or other.records == 0:  # nothing to add, and no arrays to copy
            return self if other.records == 0 else other
        return OddsTally(self.records + other.records, self.counts + other.counts)

    def __reduce__(self) -> tuple[Callable[..., "OddsTally"], tuple[Any, ...]]:
        """Pickle the occupied cells alone where they are few: 1.6 MB for each array otherwise."""
        counts = self.counts.ravel()
        occupied = np.flatnonzero(counts != 0)  # of truth values: a tenth of the time
        if occupied.size > ODDS_CELLS // _SPARSE:
            return OddsTally, (self.records, self.counts)
        return _of_occupied, (self.records, occupied.astype(np.uint32), counts[occupied])

    def by_proxy(self) -> NDArray[np.int64]:
        """Return records by the bin of the proxy's log-odds, and having the class: (bins, 2)."""
        # Label by label: all at once, the sum takes fifteen times as long.
        return np.stack([self.counts[..., label].sum(axis=1) for label in (0, 1)], axis=1)

    def cells(self, unread: "OddsTally | None" = None) -> "OddsCells":
        """Return the occupied cells as arrays, the proxy's log-odds ascending.

        Args:
            unread: records in the same cells whose label cannot be read (`unread_odds`).
        """
        whole = self if unread is None else self + unread
        # Together they are 0 only if both are; a sum along an axis of two takes ten times as long,
        # and so does looking for numbers instead of truth values.
        occupied = np.flatnonzero((whole.counts[..., 0] | whole.counts[..., 1]) != 0)
        proxy, target = np.divmod(occupied, _TARGET_BINS)
        return OddsCells(
            # Middles of bins: beliefs and an order, which nothing that is proved depends on.
            proxy=(proxy + 0.5) / _PROXY_STEPS - LARGEST,
            target=(target + 0.5) / _TARGET_STEPS - LARGEST,
            zeros=self.counts[proxy, target, 0],
            ones=self.counts[proxy, target, 1],
            unread=(whole.counts[proxy, target] - self.counts[proxy, target]).sum(axis=1),
        )

    def predictions(self, *, shift: float = 0.0) -> "Predictions":
        """Return the prediction of each record: the class where the target raised its odds.

        Otherwise that the label is another one. The prior is the proxy's probability, rounded up
        to the edge of its bin and raised by `shift`, which errs towards silence.

        Args:
            shift: bound on the total-variation distance between a record's true label distribution
                and the proxy's.
        """
        if not 0.0 <= shift <= 1.0:
            raise InvalidInputError("shift", shift, "a total-variation distance lies in [0, 1]")
        cells = self.cells()
        raised = cells.target > cells.proxy
        prior = np.where(raised, cells.proxy, -cells.proxy) + 0.5 / _PROXY_STEPS
        if shift > 0.0:
            prior = logit(np.minimum(expit(prior) + shift, 1.0 - FLOOR))
        return Predictions(
            prior=prior,
            lift=np.where(raised, cells.target, -cells.target) - prior,
            wrong=np.where(raised, cells.zeros, cells.ones).astype(np.float64),
            right=np.where(raised, cells.ones, cells.zeros).astype(np.float64),
        )


@dataclass(frozen=True, slots=True)
class OddsCells:
    """Occupied cells of an `OddsTally`; every array has shape (cells,).

    Attributes:
        proxy: log-odds of the class by the proxy, within 1/32.
        target: by the target, within 1/16.
        zeros: how many records have another label.
        ones: how many have that label.
        unread: of how many the label cannot be read.
    """

    proxy: NDArray[np.float64]
    target: NDArray[np.float64]
    zeros: NDArray[np.int64]
    ones: NDArray[np.int64]
    unread: NDArray[np.int64]

    @property
    def made(self) -> NDArray[np.int64]:
        """The number of records in each cell."""
        return self.zeros + self.ones + self.unread

    def some(self, chosen: NDArray[np.bool_]) -> "OddsCells":
        """Return some of the cells."""
        return OddsCells(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predicted labels, right and wrong; every array has shape (cells,).

    Attributes:
        prior: log-odds that the prediction is right without memorisation, at least the proxy's.
        lift: by how much the target raised them above that; may be negative.
        wrong: how many predictions were wrong.
        right: how many were right.
    """

    prior: NDArray[np.float64]
    lift: NDArray[np.float64]
    wrong: NDArray[np.float64]
    right: NDArray[np.float64]


def odds_tally(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.integer]
) -> OddsTally:
    """Count what both models say of one class of each record, and whether it is the label.

    The choice of the class uses both models' probabilities, never the label itself.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.

    Raises:
        InvalidInputError: as `label_inference`.
    """
    return OddsTally.of_cells(odds_cells(target, proxy, labels))


MOST_GROUPS = 32
"""The most values of other labels within which records are matched."""


def grouped_odds(
    cells: NDArray[np.int64], groups: NDArray[np.integer], number: int
) -> tuple[OddsTally, ...]:
    """Return the tally of each group of records.

    Args:
        cells: shape (records,), where each counts (`odds_cells`).
        groups: shape (records,), from 0 to `number` - 1.
        number: how many groups there are.
    """
    return tuple(OddsTally.of_cells(cells[groups == group]) for group in range(number))


def odds_cells(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return where each record counts in a flat `OddsTally`, shape (records,).

    Args and errors are those of `odds_tally`.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    cells: NDArray[np.int64] = _cells(target, proxy, labels.astype(np.int64, copy=False))
    return cells


def unread_odds(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> OddsTally:
    """Return the tally of records whose label cannot be read: each counts as another class.

    Args and errors are those of `odds_tally`.
    """
    any_label = np.zeros(proxy.shape[0], dtype=np.int64)
    cells = odds_cells(target, proxy, any_label)
    return OddsTally.of_cells(cells - cells % 2)


def proxy_bins(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of the proxy's log-odds of each class, shape (records, classes)."""
    found: NDArray[np.int64] = _proxy_bins(probabilities)
    return found


@njit(cache=True, inline="always")
def _odds(probability: float) -> float:
    held = min(max(probability, FLOOR), 1.0 - FLOOR)
    return held / (1.0 - held)


@njit(cache=True, inline="always")
def _bin(value: float, first: int, below: NDArray[np.int64], edges: NDArray[np.float64]) -> int:
    """Return the bin of a number between the outermost edges."""
    smallest = int(below[(np.float64(value).view(np.int64) >> _SHIFT) - first])
    return smallest + int(value >= edges[smallest + 1])


@njit(cache=True, nogil=True)
def _cells(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    records, classes = target.shape
    cells = np.empty(records, dtype=np.int64)
    for i in range(records):
        chosen = 1
        if classes > 2:
            chosen, most = 0, target[i, 0] - proxy[i, 0]
            for label in range(1, classes):
                raised = target[i, label] - proxy[i, label]
                if raised > most:
                    chosen, most = label, raised
        row = _bin(_odds(proxy[i, chosen]), _PROXY_FIRST, _PROXY_BELOW, _PROXY_EDGES)
        column = _bin(_odds(target[i, chosen]), _TARGET_FIRST, _TARGET_BELOW, _TARGET_EDGES)
        cells[i] = (row * _TARGET_BINS + column) * 2 + int(labels[i] == chosen)
    return cells


@njit(cache=True, nogil=True)
def _proxy_bins(proxy: NDArray[np.float64]) -> NDArray[np.int64]:
    bins = np.empty(proxy.shape, dtype=np.int64)
    for i in range(proxy.shape[0]):
        for j in range(proxy.shape[1]):
            bins[i, j] = _bin(_odds(proxy[i, j]), _PROXY_FIRST, _PROXY_BELOW, _PROXY_EDGES)
    return bins


def _of_occupied(
    records: int, occupied: NDArray[np.uint32], numbers: NDArray[np.int64]
) -> OddsTally:
    """Return the tally of what `OddsTally` is pickled as."""
    if not occupied.size:
        return OddsTally(records, _NO_COUNTS)
    counts = np.zeros(ODDS_CELLS, dtype=np.int64)
    counts[occupied] = numbers
    return OddsTally(records, counts.reshape(PROXY_BINS, _TARGET_BINS, 2))

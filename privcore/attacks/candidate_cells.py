"""Candidate cells for the records of a column, and the places that cut a list of them in half."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.table_columns import Column


class CandidateCells(Protocol):
    """An ascending list of cells; places in it run from 0 to `size`."""

    @property
    def size(self) -> int:
        """Number of cells."""

    def cells(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell at each place; at place `size`, the cell after the last."""

    def middles(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a place strictly between each low and high that halves what lies between."""


@dataclass(frozen=True, slots=True)
class EveryCell:
    """Every cell from `first` to `last`, all as likely."""

    first: int
    last: int

    WIDEST: ClassVar[int] = 1 << 52
    """The cell farthest from 0 that a search looks at."""

    @classmethod
    def of(cls, column: Column) -> "EveryCell":
        """Return the domain of a column with bounds."""
        if column.lower is None or column.upper is None:
            raise InvalidInputError(column.name, None, "a column is searched within bounds")
        return cls(column.lower, column.upper)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.last - self.first + 1

    def cells(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell at each place."""
        return self.first + places

    def middles(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place in the middle."""
        return (low + high) // 2


@dataclass(frozen=True, slots=True, eq=False)
class SeenCells:
    """Cells that are known to occur, ascending, each as likely as it is frequent.

    Args:
        values: shape (cells,).
        counts: shape (cells,), how many records have each, all above 0.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.values)

    def cells(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell at each place."""
        return np.asarray(np.append(self.values, self.values[-1] + 1)[places])

    def middles(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place whose two sides hold most nearly as many records."""
        before = np.concatenate([[0], np.cumsum(self.counts)])
        half = (before[low] + before[high] + 1) // 2
        after = np.clip(np.searchsorted(before, half), low + 1, high - 1)
        earlier = np.maximum(after - 1, low + 1)
        nearer = half - before[earlier] < before[after] - half
        return np.asarray(np.where(nearer, earlier, after))

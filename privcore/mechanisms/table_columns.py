"""The public schema of a table that answers queries: ordered columns, cut into cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError

_LARGEST_CELL = 2**52


@dataclass(frozen=True, slots=True)
class Column:
    """One ordered column, cut into cells that are numbered by integers.

    Cell i of a numeric column holds the values in [i * precision, (i + 1) * precision); cell i of a
    categorical column holds its i-th category. Reconstructing a column to its precision is finding
    the cell of every record.

    Args:
        name: what the table calls it.
        lower: the first cell of its domain; None where the analyst does not know it.
        upper: the last cell of its domain; None together with `lower`.
        precision: width of a cell, in the column's unit.
        categories: the categories in order; empty for a numeric column.

    Raises:
        InvalidInputError: a precision that is not above 0 and finite, no cell at all, or one bound
            without the other.
    """

    name: str
    lower: int | None = None
    upper: int | None = None
    precision: float = 1.0
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.precision > 0.0 and math.isfinite(self.precision)):
            raise InvalidInputError("precision", self.precision, "it is above 0 and finite")
        if (self.lower is None) != (self.upper is None):
            bounds = (self.lower, self.upper)
            raise InvalidInputError("bounds", bounds, "both are given or neither is")
        if self.lower is not None and self.upper is not None and self.upper < self.lower:
            bounds = (self.lower, self.upper)
            raise InvalidInputError("bounds", bounds, "the upper one is not below the lower one")

    @classmethod
    def numeric(
        cls,
        name: str,
        lower: float | None = None,
        upper: float | None = None,
        *,
        precision: float = 1.0,
    ) -> "Column":
        """Return a numeric column whose values lie between `lower` and `upper`, both included."""
        unbounded = cls(name, precision=precision)
        if lower is None or upper is None:
            return cls(name, lower, upper, precision)  # type: ignore[arg-type]  # one None raises
        first, last = unbounded.encode([lower, upper])
        return cls(name, int(first), int(last), precision)

    @classmethod
    def categorical(cls, name: str, categories: Sequence[str]) -> "Column":
        """Return a column of `categories`, in the order given.

        Raises:
            InvalidInputError: no category, or one twice.
        """
        if not categories or len(set(categories)) != len(categories):
            raise InvalidInputError("categories", tuple(categories), "each is there, and once")
        return cls(name, 0, len(categories) - 1, 1.0, tuple(categories))

    @property
    def cells(self) -> int | None:
        """Number of cells of the domain; None where it is not known."""
        if self.lower is None or self.upper is None:
            return None
        return self.upper - self.lower + 1

    def encode(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return the cell of each value; both have shape (records,).

        Raises:
            InvalidInputError: a value that is NaN or infinite, of no category, outside the bounds,
                or so large for the precision that its cell has no exact number.
        """
        if self.categories:
            return self._encode_categories(np.asarray(values))
        numbers = np.asarray(values, dtype=np.float64)
        strange = ~(np.abs(numbers / self.precision) <= _LARGEST_CELL)
        if np.any(strange):
            worst = float(numbers[strange][0])
            rule = (
                f"a value is a finite number of at most 2^52 times the precision {self.precision}"
            )
            raise InvalidInputError(self.name, worst, rule)
        cells = np.floor(numbers / self.precision).astype(np.int64)
        # The quotient is rounded: where it crossed an edge, the comparison with the edge decides.
        cells += self.decode(cells + 1) <= numbers
        cells -= self.decode(cells) > numbers
        self._check_bounds(cells)
        return cells

    def decode(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the smallest value of each numeric cell (shape kept), in the column's unit."""
        per_unit = round(1.0 / self.precision)
        if per_unit and math.isclose(1.0 / per_unit, self.precision, rel_tol=1e-12):
            # i / 100 is the double nearest to i hundredths, which i * 0.01 often is not.
            return np.asarray(cells / per_unit, dtype=np.float64)
        return np.asarray(cells * self.precision, dtype=np.float64)

    def _encode_categories(self, values: NDArray[np.generic]) -> NDArray[np.int64]:
        names = np.array(self.categories)
        order = np.argsort(names)
        places = np.minimum(np.searchsorted(names[order], values.astype(str)), len(names) - 1)
        cells = order[places].astype(np.int64)
        strange = names[cells] != values.astype(str)
        if np.any(strange):
            worst = str(values[strange][0])
            raise InvalidInputError(self.name, worst, f"it is one of {self.categories}")
        return cells

    def _check_bounds(self, cells: NDArray[np.int64]) -> None:
        if self.lower is None or self.upper is None or not cells.size:
            return
        outside = (cells < self.lower) | (cells > self.upper)
        if np.any(outside):
            worst = float(self.decode(cells[outside][:1])[0])
            low, high = self.decode(np.array([self.lower, self.upper]))
            raise InvalidInputError(self.name, worst, f"its domain is {low:g} to {high:g}")

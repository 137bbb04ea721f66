"""Threshold predicate-count queries, and who answers them.

The query q(phi, b) asks "do more than b records satisfy phi?" and is 1 if they do, else 0
("Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", equation 3.1). Its
predicates here agree with given cells on some columns and lie in a range of cells on one more; a
table's public schema is ordered columns, cut into cells. Queries are asked in batches, as arrays,
because an attack asks millions.

*Countermeasures* (section 3.6) restrict which queries are answered, each at a cost for an attacker.
None of them is a guarantee: a limit on queries leaves the attacks on single persons, which take
two, and a minimum budget per query only raises what each query is claimed to cost. Noise on the
count instead of the answer is `NoisyCountThreshold`, which is differentially private.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError, QueryRefusedError

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


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of records that agree on some columns.

    Args:
        columns: indices of those columns, in the order in which they were learned.
        cells: shape (groups, len(columns)), the cell of each of them.
    """

    columns: tuple[int, ...]
    cells: NDArray[np.int64]

    @classmethod
    def everyone(cls) -> "Groups":
        """Return the one group of all records, which need agree on nothing."""
        return cls((), np.zeros((1, 0), dtype=np.int64))

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.cells)

    def members(self) -> "Predicates":
        """Return the predicate "has all of the group's cells" of each group.

        Raises:
            InvalidInputError: no column is known of the groups.
        """
        if not self.columns:
            raise InvalidInputError("columns", self.columns, "at least one column is known")
        but_one = Groups(self.columns[:-1], np.ascontiguousarray(self.cells[:, :-1]))
        last = self.cells[:, -1]
        return Predicates(but_one, np.arange(self.size), self.columns[-1], last, last + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """One predicate for each element: "in this group, with low <= cell of the column < high".

    Args:
        groups: the groups that the predicates speak of.
        group: shape (predicates,), an index into them.
        column: the column of the range.
        low: shape (predicates,), the first cell of the range.
        high: shape (predicates,), the cell after the last of the range.
    """

    groups: Groups
    group: NDArray[np.int64]
    column: int
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of predicates."""
        return len(self.group)

    def take(self, which: NDArray[np.integer] | NDArray[np.bool_]) -> "Predicates":
        """Return the predicates at `which` indices or where it is true."""
        return replace(self, group=self.group[which], low=self.low[which], high=self.high[which])


class QueryInterface(Protocol):
    """View that an analyst has of a protected table: its schema, its size, and answers."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The public schema."""

    @property
    def records(self) -> int:
        """The public number of records n (that query has k-local sensitivity 0)."""

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the released answer to each query q(predicate, threshold), shape (queries,).

        Args:
            predicates: one for each query.
            thresholds: shape (queries,), the b of each query.
            epsilon: the privacy budget that each query spends, by the definition's accounting.

        Raises:
            QueryRefusedError: the system does not answer (any more).
        """


class RestrictedInterface:
    """Another interface that refuses what goes beyond its restrictions.

    A batch that would pass a limit is refused as a whole, and nothing of it is answered.

    Args:
        interface: who answers what is not refused.
        queries: most queries that are ever answered.
        minimum_epsilon: least budget that a single query must spend.
    """

    def __init__(
        self, interface: QueryInterface, *, queries: float = math.inf, minimum_epsilon: float = 0.0
    ) -> None:
        for name, value in (("queries", queries), ("minimum_epsilon", minimum_epsilon)):
            if not value >= 0.0:
                raise InvalidInputError(name, value, "a restriction is at least 0")
        self._interface = interface
        self._queries = queries
        self._minimum_epsilon = minimum_epsilon
        self.answered = 0
        self.spent = 0.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """The public schema."""
        return self._interface.columns

    @property
    def records(self) -> int:
        """The public number of records."""
        return self._interface.records

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the other interface's answers.

        Raises:
            QueryRefusedError: a restriction does not allow this batch.
        """
        if epsilon < self._minimum_epsilon:
            raise QueryRefusedError("a query spends at least epsilon", self._minimum_epsilon)
        if self.answered + predicates.size > self._queries:
            raise QueryRefusedError("the number of queries is limited", self._queries)
        answers = self._interface.answer(predicates, thresholds, epsilon=epsilon)
        self.answered += predicates.size
        self.spent += predicates.size * epsilon
        return answers

"""Threshold predicate-count queries, and who answers them.

The query q(phi, b) asks "do more than b records satisfy phi?" and is 1 if they do, else 0
("Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", equation 3.1). Its
predicates here agree with given cells on some columns and lie in a range of cells on one more.
Queries are asked in batches, as arrays, because an attack asks millions.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.table_columns import Column


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

"""Threshold predicate-count queries, and who answers them.

The query q(phi, b) asks "do more than b records satisfy phi?" and is 1 if they do, else 0
("Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", equation 3.1). Its
predicates here agree with given cells on some columns and lie in a range of cells on one more.
Queries are asked in batches, as arrays, because an attack asks millions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import AuditError, InvalidInputError, QueryFailedError, TransientError
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
            TransientError: the same question may be answered later.
        """


@dataclass(frozen=True, slots=True)
class Between:
    """A condition of a callable's predicate: at_least <= value of the column < below."""

    column: str
    at_least: float
    below: float


@dataclass(frozen=True, slots=True)
class OneOf:
    """A condition of a callable's predicate: the column's value is one of `categories`."""

    column: str
    categories: tuple[str, ...]


Condition = Between | OneOf


class CallableInterface:
    """A real system behind any callable, asked one query at a time.

    Args:
        function: called with the conditions (all of which hold for a record that counts), the
            threshold and the privacy budget of the query; returns the released number.
        columns: the system's public schema.
        records: the system's public number of records.

    A `ConnectionError` or `TimeoutError` of the callable becomes a `TransientError`; whatever else
    it raises becomes a `QueryFailedError` with its name and message.
    """

    def __init__(
        self,
        function: Callable[[tuple[Condition, ...], int, float], float],
        *,
        columns: tuple[Column, ...],
        records: int,
    ) -> None:
        if records < 1:
            raise InvalidInputError("records", records, "a table has at least one record")
        self._function = function
        self.columns = columns
        self.records = records

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the callable's answer to each query; `QueryInterface.answer` has the rest."""
        answers = np.empty(predicates.size, dtype=np.float64)
        for index, threshold in enumerate(thresholds.tolist()):
            answers[index] = self._ask(self._conditions(predicates, index), threshold, epsilon)
        return answers

    def _ask(self, conditions: tuple[Condition, ...], threshold: int, epsilon: float) -> float:
        try:
            return float(self._function(conditions, threshold, epsilon))
        except AuditError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise TransientError(f"The queried system did not answer: {error}") from error
        except Exception as error:  # a foreign system's failure ends the attack, not the audit
            raise QueryFailedError(type(error).__name__, str(error)) from error

    def _conditions(self, predicates: Predicates, index: int) -> tuple[Condition, ...]:
        cells = predicates.groups.cells[predicates.group[index]].tolist()
        known = [
            self._condition(column, cell, cell + 1)
            for column, cell in zip(predicates.groups.columns, cells, strict=True)
        ]
        low, high = int(predicates.low[index]), int(predicates.high[index])
        return (*known, self._condition(predicates.column, low, high))

    def _condition(self, index: int, low: int, high: int) -> Condition:
        column = self.columns[index]
        if column.categories:
            return OneOf(column.name, column.categories[max(low, 0) : max(high, 0)])
        at_least, below = column.decode(np.array([low, high])).tolist()
        return Between(column.name, at_least, below)

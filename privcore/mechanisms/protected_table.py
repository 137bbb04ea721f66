"""A table behind a mechanism, which answers threshold queries in batches."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.local_sensitivity import QueryMechanism, TrueAnswers
from privcore.mechanisms.threshold_queries import Column, Groups, Predicates


class ProtectedTable:
    """A `QueryInterface` over a table that is held here.

    A batch speaks of groups of records and of a range in one column. Records are kept sorted by
    group and that column, so a count is two binary searches within the group's few records; the
    sorting is done again only when a batch comes with other columns.

    Args:
        cells: shape (records, columns), the cell of each value (`Column.encode`).
        columns: the schema; its bounds say which predicates hold for every possible record.
        mechanism: how answers are protected.
        random: where the noise comes from.

    Raises:
        InvalidInputError: no records, a column too few or too many, or a cell outside its
            column's bounds.
    """

    def __init__(
        self,
        cells: NDArray[np.int64],
        columns: tuple[Column, ...],
        mechanism: QueryMechanism,
        random: np.random.Generator,
    ) -> None:
        if cells.ndim != 2 or cells.shape[1] != len(columns) or not columns or not len(cells):
            rule = f"its shape is (records, {len(columns)}), with records and columns"
            raise InvalidInputError("cells", cells.shape, rule)
        self.records = len(cells)
        for index, column in enumerate(columns):
            _check_domain(column, cells[:, index])
        self.columns = columns
        self.mechanism = mechanism
        self._cells = np.asfortranarray(cells, dtype=np.int64)
        self._random = random
        self._prefix = _Prefix.of_everyone(len(cells))
        self._range: _SortedRange | None = None
        self._located: tuple[Groups, NDArray[np.int64]] | None = None

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the released answers; `QueryInterface.answer` has the rest."""
        true = TrueAnswers(
            self.counts(predicates), thresholds, self._constant(predicates), self.records
        )
        return self.mechanism.release(true, epsilon=epsilon, random=self._random)

    def counts(self, predicates: Predicates) -> NDArray[np.int64]:
        """Return how many records satisfy each predicate, shape (predicates,): the truth."""
        groups = predicates.groups
        if self._prefix.columns != groups.columns:
            self._prefix = self._prefix.towards(groups.columns, self._cells)
            self._range = None
        if self._range is None or self._range.column != predicates.column:
            self._range = _SortedRange.of(self._prefix, predicates.column, self._cells)
        # A search asks about the same groups many times: they are looked up once.
        if self._located is None or self._located[0] is not groups:
            self._located = (groups, self._prefix.locate(groups.cells))
        located = self._located[1][predicates.group]
        counts: NDArray[np.int64] = _count(
            self._range.cells, self._range.starts, located, predicates.low, predicates.high
        )
        return counts

    def _constant(self, predicates: Predicates) -> NDArray[np.bool_]:
        """Tell which predicates hold for every possible record, or for none."""
        column = self.columns[predicates.column]
        never = predicates.low >= predicates.high
        always = np.zeros_like(never)
        if column.lower is not None and column.upper is not None:
            never = never | (predicates.high <= column.lower) | (predicates.low > column.upper)
            always = (predicates.low <= column.lower) & (predicates.high > column.upper)
        for index, known in enumerate(predicates.groups.columns):
            other = self.columns[known]
            if other.lower is None or other.upper is None:
                always = np.zeros_like(always)
                continue
            cells = predicates.groups.cells[:, index]
            never = never | ((cells < other.lower) | (cells > other.upper))[predicates.group]
            always = always & (other.lower == other.upper)
        return never | always


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Further division of groups by one column: the pairs (group, cell) that exist, in order."""

    distinct: NDArray[np.int64]
    keys: NDArray[np.int64]

    def find(self, group: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each pair's number, -1 where no record has it."""
        rank = np.minimum(np.searchsorted(self.distinct, cells), self.distinct.size - 1)
        key = group * self.distinct.size + rank
        place = np.minimum(np.searchsorted(self.keys, key), self.keys.size - 1)
        there = (self.distinct[rank] == cells) & (self.keys[place] == key) & (group >= 0)
        return np.where(there, place, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _Prefix:
    """The records' groups by the first columns that an attack has learned."""

    columns: tuple[int, ...]
    group: NDArray[np.int64]
    levels: tuple[_Level, ...]

    @classmethod
    def of_everyone(cls, records: int) -> "_Prefix":
        return cls((), np.zeros(records, dtype=np.int64), ())

    def towards(self, columns: tuple[int, ...], cells: NDArray[np.int64]) -> "_Prefix":
        """Return the prefix of `columns`, from here where they go on from here."""
        known = len(self.columns)
        prefix = self if columns[:known] == self.columns else _Prefix.of_everyone(len(cells))
        for column in columns[len(prefix.columns) :]:
            prefix = prefix._extended(column, cells[:, column])  # noqa: SLF001
        return prefix

    def _extended(self, column: int, cells: NDArray[np.int64]) -> "_Prefix":
        distinct, rank = np.unique(cells, return_inverse=True)
        keys, group = np.unique(self.group * distinct.size + rank, return_inverse=True)
        return _Prefix((*self.columns, column), group, (*self.levels, _Level(distinct, keys)))

    def locate(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each group, -1 where no record is in it; shape (groups,)."""
        group = np.zeros(len(cells), dtype=np.int64)
        for index, level in enumerate(self.levels):
            group = level.find(group, cells[:, index])
        return group


@dataclass(frozen=True, slots=True, eq=False)
class _SortedRange:
    """One column's cells, sorted within each group; group g holds starts[g] to starts[g + 1]."""

    column: int
    cells: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, prefix: _Prefix, column: int, cells: NDArray[np.int64]) -> "_SortedRange":
        order = np.lexsort((cells[:, column], prefix.group))
        groups = np.arange(int(prefix.group.max()) + 2)
        return cls(column, cells[order, column], np.searchsorted(prefix.group[order], groups))


def _check_domain(column: Column, cells: NDArray[np.int64]) -> None:
    if column.lower is None or column.upper is None:
        return
    outside = (cells < column.lower) | (cells > column.upper)
    if np.any(outside):
        rule = f"its cells are {column.lower} to {column.upper}"
        raise InvalidInputError(column.name, int(cells[outside][0]), rule)


@njit(cache=True)
def _count(
    cells: NDArray[np.int64],
    starts: NDArray[np.int64],
    group: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count each group's cells within [low, high) by two binary searches."""
    counts = np.zeros(group.size, dtype=np.int64)
    for query in range(group.size):
        if group[query] < 0 or low[query] >= high[query]:
            continue
        first, last = starts[group[query]], starts[group[query] + 1]
        counts[query] = _below(cells, first, last, high[query]) - _below(
            cells, first, last, low[query]
        )
    return counts


@njit(cache=True)
def _below(cells: NDArray[np.int64], first: int, last: int, bound: int) -> int:
    """Return the first place from `first` to `last` whose cell is not below `bound`."""
    while first < last:
        middle = (first + last) // 2
        if cells[middle] < bound:
            first = middle + 1
        else:
            last = middle
    return first

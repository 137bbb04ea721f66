"""Reconstructing columns and whole tables from the noise of threshold queries.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", sections 3.3 and 3.4:
a column is found by counting records in ever smaller ranges, a table column by column, each new
column within every group of records that agree on the columns before it. Every decision is certain
up to the chance that noise is mistaken for none, whatever epsilon the definition claims to spend.

*The search whose queries the paper counts* (section 6) optimises Algorithms 1 and 2 by binary
search; the order of its questions was read from the authors' program
(github.com/cmla-psu/idpreconstruction) and is stated here so that its counts can be checked. Cells
come largest first: a binary search for the largest cell that holds records of the group, asking at
a middle and, where that says "all below", one cell under it; then a binary search for how many
records lie below that cell. `Bisection` learns the same with fewer queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.query_adversary import NOISY, Adversary, CandidateCells, EveryCell, SeenCells
from privcore.exceptions import INTERFACE_ERRORS, InvalidInputError, NoBoundsError
from privcore.mechanisms.threshold_queries import Column, Groups, Predicates


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """Number of records of each group in each cell of a column; every count is above 0.

    Args:
        group: shape (found,), ascending.
        cell: shape (found,), ascending within a group.
        count: shape (found,).
    """

    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bisection:
    """Halve ranges of candidate cells and count the left half, all groups and ranges at once.

    The halves weigh the same by the column's own counts, which are found first: a group's cell then
    takes about as many decisions as the column's entropy has bits, instead of its domain's.
    """

    marginals_first = True

    def find(
        self,
        adversary: Adversary,
        column: int,
        groups: Groups,
        sizes: NDArray[np.int64],
        candidates: CandidateCells,
    ) -> CellCounts:
        """Return the cells of `column` within each group, by asking `adversary`.

        Args:
            adversary: who asks.
            column: index of the column.
            groups: the groups.
            sizes: shape (groups,), how many records each has.
            candidates: the cells that a record may lie in.
        """
        group, size = np.arange(groups.size), sizes
        low, high = np.zeros_like(group), np.full_like(group, candidates.size)
        leaves = []
        while group.size:
            single = high - low == 1
            cells = candidates.cells(low[single])
            leaves.append(np.stack([group[single], cells, size[single]]))
            group, low, high, size = (part[~single] for part in (group, low, high, size))
            middle = candidates.middles(low, high)
            left = Predicates(
                groups, group, column, candidates.cells(low), candidates.cells(middle)
            )
            in_left = adversary.counts(left, size)
            group = np.concatenate([group, group])
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            size = np.concatenate([in_left, size - in_left])
            filled = np.flatnonzero(size)
            group, low, high, size = (part[filled] for part in (group, low, high, size))
        return sorted_counts(np.concatenate(leaves, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class TableReconstruction:
    """Result of an attack on a whole table.

    Args:
        groups: the distinct records, as far as their columns are known; `groups.columns` has the
            columns in the order in which they were learned.
        counts: shape (groups,), how often each occurs.
        stopped: why the attack ended early; None where it ended with every column known.
    """

    groups: Groups
    counts: NDArray[np.int64]
    stopped: str | None


def find_bounds(adversary: Adversary, column: int) -> Column:
    """Return the column with bounds that hold every record, found by doubling.

    Asks whether all records lie in [-1, 1), [-2, 2), ... cells (footnote 4 of the paper): one
    decision for each doubling. A column that has bounds is returned as it is.

    Raises:
        NoBoundsError: no range was found.
        InvalidInputError: the rule for noise tells no sides, which this search needs.
    """
    known = adversary.interface.columns[column]
    if known.cells is not None:
        return known
    if not adversary.rule.tells_side:
        rule = "a column needs bounds where noise is told by its variance"
        raise InvalidInputError(known.name, None, rule)
    width = 1
    while width <= EveryCell.WIDEST:
        predicate = one_range(column, -width, width)
        if adversary.exceeds(predicate, np.array([adversary.records - 1]))[0]:
            return Column(known.name, -width, width - 1, known.precision)
        width *= 2
    raise NoBoundsError(known.name)


def reconstruct_column(
    adversary: Adversary,
    column: int,
    search: "ColumnSearch | None" = None,
    bounds: Column | None = None,
) -> CellCounts:
    """Return how many records have each cell of a column: Algorithm 2, by bisection.

    Args:
        adversary: who asks.
        column: index of the column.
        search: how cells are looked for; `Bisection` by default.
        bounds: what the attacker believes of its domain; the interface's schema by default, and
            doubling where that has no bounds.
    """
    domain = bounds or find_bounds(adversary, column)
    return _marginal(adversary, column, domain, search or Bisection())


def reconstruct_table(
    adversary: Adversary,
    *,
    order: Sequence[int] | None = None,
    bounds: Sequence[Column] | None = None,
    search: "ColumnSearch | None" = None,
) -> TableReconstruction:
    """Reconstruct a whole table, column by column (section 3.4 of the paper).

    Where the interface refuses, fails or answers garbage, the attack ends there and returns what it
    had learned by then, and why it ended.

    Args:
        adversary: who asks.
        order: the columns to learn, in this order; all, smallest domain first, by default.
        bounds: what the attacker believes of each column's domain; the interface's schema by
            default, and doubling where that has no bounds.
        search: how cells are looked for; `Bisection` by default.
    """
    search = search or Bisection()
    columns = list(range(len(adversary.interface.columns)) if order is None else order)
    groups, counts, stopped = Groups.everyone(), np.array([adversary.records]), None
    candidates: dict[int, CandidateCells] = {}
    marginals: dict[int, CellCounts] = {}
    try:
        for column in columns:
            domain = bounds[column] if bounds else find_bounds(adversary, column)
            candidates[column] = EveryCell.of(domain)
            if search.marginals_first:
                marginals[column] = found = _marginal(adversary, column, domain, search)
                candidates[column] = SeenCells(found.cell, found.count)
        if order is None:
            columns.sort(key=lambda column: candidates[column].size)
        for column in columns:
            if not groups.columns and column in marginals:
                found = marginals[column]
            else:
                found = search.find(adversary, column, groups, counts, candidates[column])
            groups = extended_groups(groups, column, found.group, found.cell)
            counts = found.count
    except INTERFACE_ERRORS as error:
        stopped = str(error)
    return TableReconstruction(groups, counts, stopped)


def one_range(column: int, low: int, high: int) -> Predicates:
    """Return the predicate "low <= cell of the column < high" over all records."""
    nobody_else = np.zeros(1, dtype=np.int64)
    return Predicates(
        Groups.everyone(), nobody_else, column, np.array([low]), np.array([high], dtype=np.int64)
    )


def extended_groups(
    groups: Groups, column: int, group: NDArray[np.int64], cells: NDArray[np.int64]
) -> Groups:
    """Return the groups into which `cells` of a column divide the groups of the same places."""
    return Groups((*groups.columns, column), np.column_stack([groups.cells[group], cells]))


def sorted_counts(found: NDArray[np.int64]) -> CellCounts:
    """Return rows of group, cell and count in ascending order of group and cell."""
    order = np.lexsort((found[1], found[0]))
    return CellCounts(*found[:, order])


def _marginal(
    adversary: Adversary, column: int, bounds: Column, search: "ColumnSearch"
) -> CellCounts:
    everyone = np.array([adversary.records])
    return search.find(adversary, column, Groups.everyone(), everyone, EveryCell.of(bounds))


@dataclass(frozen=True, slots=True)
class Match:
    """Overlap of a reconstruction and the table.

    A reconstruction has no order of rows, so records are compared as a multiset. A cell is right
    where its record's cells are right in it and in every column that was learned before it: an
    attacker who has the wrong person's age has not read the right person's balance.

    Attributes:
        records: records of the table that were reconstructed whole.
        by_column: cells that are right of each column, in the order in which they were learned.
        total_records: records of the table.
        total_cells: cells of the table.
    """

    records: int
    by_column: tuple[int, ...]
    total_cells: int

    @property
    def cells(self) -> int:
        """Cells that are right."""
        return sum(self.by_column)

    @property
    def share_of_cells(self) -> float:
        """Cells that are right, of all."""
        return self.cells / self.total_cells


def table_match(cells: NDArray[np.int64], groups: Groups, counts: NDArray[np.int64]) -> Match:
    """Compare a reconstruction with the table that it is of.

    Args:
        cells: shape (records, columns), the table; for existence probing, its distinct records.
        groups: the distinct records that an attack found; its columns index those of `cells`.
        counts: shape (groups,), how often it found each.
    """
    records, columns = cells.shape
    if not cells.size:
        raise InvalidInputError("cells", cells.shape, "a table has records and columns")
    alike = np.zeros(records + groups.size, dtype=np.int64)
    right = []
    for place, column in enumerate(groups.columns):
        both = np.concatenate([cells[:, column], groups.cells[:, place]])
        distinct, rank = np.unique(both, return_inverse=True)
        _, alike = np.unique(alike * distinct.size + rank, return_inverse=True)
        size = int(alike.max()) + 1
        there = np.bincount(alike[:records], minlength=size)
        found = np.bincount(alike[records:], weights=counts, minlength=size).astype(np.int64)
        right.append(int(np.minimum(there, found).sum()))
    whole = right[-1] if len(right) == columns else 0
    return Match(whole, tuple(right), records * columns)


# What a search waits for: the answer at a middle or one below it, of a cell or of a count.
_VALUE, _VALUE_BELOW, _COUNT, _COUNT_BELOW, _COUNTED = range(5)
_NOISE = int(NOISY)
# The columns of a search's state.
_WAITS, _LEFT, _LOW, _HIGH, _MIDDLE, _CELL, _BOUND, _THRESHOLD, _FIELDS = range(9)


@dataclass(frozen=True, slots=True)
class PublishedSearch:
    """The published order of questions, for IDP (k = 1) and for an unprotected table (k = 0)."""

    marginals_first = False

    def find(
        self,
        adversary: Adversary,
        column: int,
        groups: Groups,
        sizes: NDArray[np.int64],
        candidates: CandidateCells,
    ) -> CellCounts:
        """Return the cells of `column` within each group; `Bisection.find` has the rest.

        Raises:
            InvalidInputError: k above 1, for which the order is not published, or a rule for noise
                that does not tell a noiseless 0 from a noiseless 1.
        """
        _check_adversary(adversary)
        first, last = candidates.cells(np.array([0, candidates.size])).tolist()
        bottom, top = first - 1, last  # `last` lies one after the last cell, as `cells` has it
        state = np.zeros((groups.size, _FIELDS), dtype=np.int64)
        state[:, _LEFT] = sizes
        state[:, _LOW], state[:, _HIGH] = bottom, top
        active = np.arange(groups.size)
        begin = np.full(groups.size, -1, dtype=np.int8)
        found: list[NDArray[np.int64]] = []
        found.append(_advance(state, active, begin, adversary.records, adversary.k, bottom))
        while (active := active[state[active, _LEFT] > 0]).size:
            asked = state[active]
            low = np.full(active.size, bottom)
            predicates = Predicates(groups, active, column, low, asked[:, _BOUND])
            signs = adversary.signs(predicates, asked[:, _THRESHOLD])
            found.append(_advance(state, active, signs, adversary.records, adversary.k, bottom))
        return sorted_counts(np.concatenate(found).T)


ColumnSearch = Bisection | PublishedSearch
"""An adversary's way to find the cells of a column.

Where `marginals_first`, each column is first searched alone, so that groups are searched knowing
it.
"""


def find_single(
    adversary: Adversary, column: int, groups: Groups, candidates: CandidateCells
) -> NDArray[np.int64]:
    """Return the cell of `column` of each group, all known to hold exactly one record.

    Section 6.3's search for a target's attribute: as `PublishedSearch`, but without the counts,
    which are known to be 0 or 1. Shape (groups,).
    """
    _check_adversary(adversary)
    first, last = candidates.cells(np.array([0, candidates.size])).tolist()
    bottom, top = first - 1, last
    low, high = np.full(groups.size, bottom), np.full(groups.size, top)
    cells = low.copy()
    active = np.arange(groups.size)
    nobody = np.zeros(groups.size, dtype=np.int64)
    start = np.full(groups.size, bottom)
    while active.size:
        middle = (low[active] + high[active]) // 2
        reached = Predicates(groups, active, column, start[active], middle)
        inside = adversary.exceeds(reached, nobody[active])
        low[active[~inside]] = middle[~inside] + 1
        candidates_ = active[inside]
        below = Predicates(groups, candidates_, column, start[candidates_], middle[inside] - 1)
        deeper = adversary.exceeds(below, nobody[candidates_])
        high[candidates_[deeper]] = middle[inside][deeper]
        cells[candidates_[~deeper]] = middle[inside][~deeper] - 1
        ended = np.zeros(groups.size, dtype=np.bool_)
        ended[candidates_[~deeper]] = True
        active = active[~ended[active] & (low[active] <= high[active])]
    return cells


def _check_adversary(adversary: Adversary) -> None:
    if adversary.k > 1:
        raise InvalidInputError("k", adversary.k, "the published search is for k = 1, or 0")
    if not adversary.rule.tells_side:
        rule = "the published search needs to know a noiseless 0 from a noiseless 1"
        raise InvalidInputError("rule", adversary.rule, rule)


@njit(cache=True)
def _advance(
    state: NDArray[np.int64],
    active: NDArray[np.int64],
    signs: NDArray[np.int8],
    records: int,
    k: int,
    bottom: int,
) -> NDArray[np.int64]:
    """Take in the answer to each active search's question, and put its next one.

    Returns rows of group, cell and count that were found; a search with nothing left has ended.
    """
    found = np.empty((active.size, 3), dtype=np.int64)
    rows = 0
    for place in range(active.size):
        row = state[active[place]]
        sign = signs[place]
        cell, count = _step(row, sign, records, k, bottom)
        if count > 0:
            found[rows] = active[place], cell, count
            rows += 1
    return found[:rows]


@njit(cache=True)
def _step(row: NDArray[np.int64], sign: int, records: int, k: int, bottom: int) -> tuple[int, int]:
    """Move one search on to the next question whose answer it does not know already."""
    cell, count = 0, 0
    while True:
        if sign >= 0:
            if row[_WAITS] <= _VALUE_BELOW:
                _take_value(row, sign, records, k)
            else:
                _take_count(row, sign, k)
        if row[_WAITS] == _COUNTED:
            # The largest cell and how many records lie below it are known: on to the next cell.
            cell, count = row[_CELL], row[_LEFT] - row[_MIDDLE]
            row[_LEFT] = row[_MIDDLE]
            row[_WAITS], row[_LOW], row[_HIGH] = _VALUE, bottom, cell
        if row[_WAITS] == _VALUE and row[_LOW] > row[_HIGH]:
            # Only answers that contradict each other lead here: the rest is taken as the last cell.
            cell, count = row[_CELL], count + row[_LEFT]
            row[_LEFT] = 0
        if row[_LEFT] == 0:
            return cell, count
        _ask(row, records, k)
        # Without protection the authors' program asks and counts these two as well.
        if k > 0 and row[_THRESHOLD] >= records:
            sign = 0
        elif k > 0 and row[_THRESHOLD] < 0:
            sign = 1
        else:
            return cell, count


@njit(cache=True)
def _ask(row: NDArray[np.int64], records: int, k: int) -> None:
    """Write the question of a search into its state."""
    if row[_WAITS] == _VALUE or row[_WAITS] == _COUNT:
        row[_MIDDLE] = (row[_LOW] + row[_HIGH]) // 2
    if row[_WAITS] >= _COUNT:
        row[_BOUND] = row[_CELL]
        row[_THRESHOLD] = row[_MIDDLE] - (row[_WAITS] == _COUNT_BELOW)
    elif row[_LEFT] + k - 1 < records:
        row[_BOUND] = row[_MIDDLE] - (row[_WAITS] == _VALUE_BELOW)
        row[_THRESHOLD] = row[_LEFT] + k - 1
    else:  # all records are left, where only the lower border can be seen; it is asked below first
        row[_BOUND] = row[_MIDDLE] - (row[_WAITS] == _VALUE)
        row[_THRESHOLD] = row[_LEFT] - k - 1


@njit(cache=True)
def _take_value(row: NDArray[np.int64], sign: int, records: int, k: int) -> None:
    """Take in whether all records that are left lie below the middle, or below one less."""
    upper = row[_LEFT] + k - 1 < records
    every = sign != 0 if upper else sign == 1
    first = row[_WAITS] == _VALUE
    row[_WAITS] = _VALUE
    at_middle = first == upper
    if at_middle and not every:
        row[_LOW] = row[_MIDDLE] + 1
    elif not at_middle and every:
        row[_HIGH] = row[_MIDDLE] - (not upper)
    elif first:
        row[_WAITS] = _VALUE_BELOW
    else:
        row[_CELL] = row[_MIDDLE] - 1
        row[_WAITS], row[_LOW], row[_HIGH] = _COUNT, 0, row[_LEFT]


@njit(cache=True)
def _take_count(row: NDArray[np.int64], sign: int, k: int) -> None:
    """Take in the answer at a threshold; the border's upper side is the count plus k."""
    if row[_WAITS] == _COUNT:
        if sign == 0:
            row[_WAITS] = _COUNT_BELOW
        else:
            row[_LOW] = row[_MIDDLE] + 1
            if sign == _NOISE:
                row[_HIGH] = min(row[_HIGH], row[_MIDDLE] + k + 1)
    elif sign != 0:
        row[_WAITS], row[_MIDDLE] = _COUNTED, max(row[_MIDDLE] - k, 0)
    else:
        row[_WAITS], row[_HIGH] = _COUNT, row[_MIDDLE] - 1
    if row[_WAITS] == _COUNT and row[_LOW] > row[_HIGH]:
        row[_WAITS], row[_MIDDLE] = _COUNTED, 0

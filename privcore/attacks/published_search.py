"""The search whose queries the paper counts, question by question.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", section 6, optimises
Algorithms 1 and 2 by binary search; the order of its questions was read from the authors' program
(github.com/cmla-psu/idpreconstruction) and is stated here so that its counts can be checked. Cells
come largest first: a binary search for the largest cell that holds records of the group, asking at
a middle and, where that says "all below", one cell under it; then a binary search for how many
records lie below that cell. `Bisection` learns the same with fewer queries.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.candidate_cells import CandidateCells
from privcore.attacks.noise_detection import NOISY
from privcore.attacks.query_adversary import Adversary
from privcore.attacks.query_reconstruction import CellCounts, sorted_counts
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.threshold_queries import Groups, Predicates

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
        """Return the cells of `column` within each group; `ColumnSearch.find` has the rest.

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

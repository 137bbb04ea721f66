"""Share of a table that a reconstruction got right: by the table, or by asking again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.existence_probing import any_record
from privcore.attacks.query_adversary import Adversary
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.threshold_queries import Groups, Predicates

_TIMES = 8


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


def confirm_groups(
    adversary: Adversary, groups: Groups, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which groups have just as many records as was read, by asking again; shape (groups,).

    What there is to do where no table is at hand to compare with: "more than count - 1?" and "more
    than count?", eight times each, where individual differential privacy is claimed; "any?", eight
    times, for an adversary with k = 0, who reads existence. A reading that is right is confirmed as
    surely as noise is seen. One that is wrong is not, unless answers say nothing of the table:
    coins confirm with a probability of 4^-8, and of a quarter where the same question always gets
    the same coin, so of a few groups alone no conclusion should be drawn.

    Args:
        adversary: who asks.
        groups: what was read, at least one column of it.
        counts: shape (groups,), how often each was read, above 0.
    """
    members = groups.members()
    right = np.ones(groups.size, dtype=np.bool_)
    for _ in range(_TIMES):
        if not adversary.k:
            right &= any_record(adversary, members)
            continue
        right &= adversary.exceeds(members, counts - 1)
        fewer = np.flatnonzero(counts < adversary.records)
        right[fewer] &= ~adversary.exceeds(members.take(fewer), counts[fewer])
    return right


def confirm_counts(
    adversary: Adversary,
    groups: Groups,
    counts: NDArray[np.int64],
    *,
    asked: NDArray[np.int64],
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """Tell of which groups other questions find as many records as was read; shape (asked,).

    For answers without noise. What was read from answers that are remembered is confirmed by the
    same questions, right or wrong, so others are asked: eight times for each group, how many
    records share all of its cells but one, which lies in a range around it that is drawn at random.
    How many that must be follows from all groups that were read.

    Args:
        adversary: who asks, with k = 0.
        groups: all that was read, at least one column of it.
        counts: shape (groups,), how often each was read, above 0.
        asked: indices of the groups that are asked about.
        random: draws the column and the range.
    """
    right = np.ones(len(asked), dtype=np.bool_)
    for _ in range(_TIMES):
        column = int(random.integers(len(groups.columns)))
        others = np.delete(np.arange(len(groups.columns)), column)
        cells = groups.cells[:, column]
        least, most = int(cells.min()), int(cells.max())
        low = random.integers(least, cells[asked], endpoint=True)
        high = random.integers(cells[asked], most, endpoint=True) + 1
        known = Groups(
            tuple(groups.columns[other] for other in others), groups.cells[asked][:, others]
        )
        expected = _within(groups.cells[:, others], cells, counts, asked=asked, low=low, high=high)
        ranges = Predicates(known, np.arange(len(asked)), groups.columns[column], low, high)
        right &= adversary.exceeds(ranges, expected - 1)
        fewer = np.flatnonzero(expected < adversary.records)
        right[fewer] &= ~adversary.exceeds(ranges.take(fewer), expected[fewer])
    return right


def _within(
    others: NDArray[np.int64],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    *,
    asked: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return how many records, as read, share the other cells of each asked group in its range."""
    alike = np.zeros(len(cells), dtype=np.int64)
    for other in others.T:
        kinds, kind = np.unique(other, return_inverse=True)
        _, alike = np.unique(alike * kinds.size + kind, return_inverse=True)
    distinct, rank = np.unique(cells, return_inverse=True)
    place = alike * (distinct.size + 1) + rank
    order = np.argsort(place, kind="stable")
    total = np.concatenate([[0], np.cumsum(counts[order])])
    base = alike[asked] * (distinct.size + 1)
    start = np.searchsorted(place[order], base + np.searchsorted(distinct, low))
    stop = np.searchsorted(place[order], base + np.searchsorted(distinct, high))
    return np.asarray(total[stop] - total[start])

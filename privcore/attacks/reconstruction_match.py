"""Share of a table that a reconstruction got right: by the table, or by asking again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.threshold_queries import Groups


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

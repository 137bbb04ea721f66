from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcore.attacks.query_reconstruction import table_match
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import Groups

ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=9)


def reconstruction(rows, order, known=3):
    found = Counter(tuple(row[c] for c in order[:known]) for row in rows)
    cells = np.array(list(found), dtype=np.int64).reshape(-1, known)
    counts = np.array(list(found.values()), dtype=np.int64)
    return Groups(tuple(order[:known]), cells), counts


@given(ROWS, ROWS, st.permutations([0, 1, 2]), st.integers(1, 3))
def test_the_match_is_the_intersection_of_multisets_of_prefixes(table, found, order, known):
    match = table_match(np.array(table), *reconstruction(found, order, known))
    common = [
        (
            Counter(tuple(row[c] for c in order[:width]) for row in table)
            & Counter(tuple(row[c] for c in order[:width]) for row in found)
        ).total()
        for width in range(1, known + 1)
    ]
    assert match.by_column == tuple(common)
    assert match.cells == sum(common)
    assert match.records == (common[-1] if known == 3 else 0)
    assert match.share_of_cells == match.cells / (3 * len(table))


def test_a_whole_reconstruction_matches_wholly_and_nothing_matches_nothing():
    rows = [(0, 1, 2), (0, 1, 2), (2, 2, 2)]
    match = table_match(np.array(rows), *reconstruction(rows, [2, 0, 1]))
    assert match.share_of_cells == 1.0
    nothing = (Groups.everyone(), np.array([3]))
    assert table_match(np.array(rows), *nothing).cells == 0
    with pytest.raises(InvalidInputError, match="records and columns"):
        table_match(np.zeros((0, 3), dtype=np.int64), *nothing)

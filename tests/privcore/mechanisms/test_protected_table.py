import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.exceptions import QueryRefusedError
from privcore.mechanisms.local_sensitivity import KLaplace, Unprotected
from privcore.mechanisms.threshold_queries import Column, Groups, Predicates, RestrictedInterface
from tests.support.queries import domain, protect
from tests.support.refusals import refused

TABLES = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)),
        min_size=n,
        max_size=n,
    )
)


@pytest.mark.slow
@settings(deadline=None)  # the first example compiles
@given(TABLES, st.permutations([0, 1, 2]), st.integers(0, 2), st.data())
def test_counts_are_those_of_a_scan(rows, order, known, data):
    cells = np.array(rows)
    table = protect(cells, [Column("a"), Column("b"), Column("c")], Unprotected())
    for _ in range(3):  # a new batch on other columns, also after one that went on from it
        columns, column = tuple(order[:known]), order[known]
        some = st.lists(st.integers(-4, 4), min_size=known, max_size=known)
        groups = np.array([data.draw(some) for _ in range(3)], dtype=np.int64).reshape(3, known)
        low = np.array([data.draw(st.integers(-5, 5)) for _ in range(5)])
        high = np.array([data.draw(st.integers(-5, 5)) for _ in range(5)])
        group = np.array([0, 1, 2, 1, 0])
        predicates = Predicates(Groups(columns, groups), group, column, low, high)
        scan = [
            sum(
                all(row[c] == groups[g, i] for i, c in enumerate(columns)) and u <= row[column] < v
                for row in rows
            )
            for g, u, v in zip(group, low, high, strict=True)
        ]
        assert table.counts(predicates).tolist() == scan
        known = data.draw(st.integers(0, 2))


def test_predicates_that_hold_for_every_possible_record_or_for_none_are_never_noisy():
    table = protect([[0, 0], [1, 0], [2, 0]], domain(3, 1), KLaplace(1))
    groups = Groups((1,), np.array([[0], [9]]))
    predicates = Predicates(
        groups, np.array([0, 0, 0, 1]), 0, np.array([0, 0, 3, 0]), np.array([3, 2, 9, 2])
    )
    answers = table.answer(predicates, np.array([2, 2, 0, 0]), epsilon=1e-10)
    assert answers[0] == 1.0  # the whole domain
    assert answers[1] not in {0.0, 1.0}
    assert answers[2] == 0.0  # outside the domain
    assert answers[3] == 0.0  # a group outside its column's domain


@given(st.floats(-1e6, 1e6), st.sampled_from([1.0, 0.5, 0.1, 0.01, 0.03, 7.0, 1e-3, 1e3]))
def test_a_value_lies_within_its_cell(value, precision):
    column = Column.numeric("x", precision=precision)
    cell = column.encode([value])
    assert column.decode(cell)[0] <= value < column.decode(cell + 1)[0]


def test_hundredths_keep_their_own_cell():
    column = Column.numeric("price", 0, 10, precision=0.01)
    values = np.arange(1001) / 100
    assert column.encode(values).tolist() == list(range(1001))
    assert column.decode(column.encode(values)).tolist() == values.tolist()


def test_categories_keep_their_order():
    column = Column.categorical("kind", ["z", "a", "m"])
    assert column.encode(np.array(["a", "z", "m", "a"])).tolist() == [1, 0, 2, 1]
    refused("'q'", column.encode, np.array(["a", "q"]))
    for categories in ([], ["a", "a"]):
        refused("categories", Column.categorical, "kind", categories)


def test_bad_columns_are_named():
    for precision in (0.0, -1.0, math.nan, math.inf):
        refused("precision is", Column.numeric, "x", 0, 1, precision=precision)
    refused("bounds", Column, "x", 3, 2)
    refused("bounds", Column, "x", 3, None)
    for value in (math.nan, math.inf, 1e300):
        refused("x is", Column.numeric("x").encode, [1.0, value])
    refused(r"x is 11.0", Column.numeric("x", 0, 10).encode, [1.0, 11.0])


def test_bad_tables_are_named():
    for cells in (np.zeros((0, 1)), np.zeros((2, 2)), np.zeros(3)):
        refused("cells", protect, cells.astype(np.int64), domain(2), Unprotected())
    refused("c0 is 5", protect, [[5]], domain(2), Unprotected())


def test_restrictions_refuse_and_count():
    table = protect([[0], [1], [1]], domain(2), KLaplace(1))
    three = np.zeros(3, dtype=np.int64)
    predicates = Predicates(Groups.everyone(), three, 0, three, three + 1)
    limited = RestrictedInterface(table, queries=7)
    for _ in range(2):
        limited.answer(predicates, three, epsilon=0.1)
    with pytest.raises(QueryRefusedError, match="number of queries is limited"):
        limited.answer(predicates, three, epsilon=0.1)
    assert limited.answered == 6
    assert limited.spent == pytest.approx(0.6)

    minimum = RestrictedInterface(table, minimum_epsilon=0.01)
    with pytest.raises(QueryRefusedError, match="at least epsilon"):
        minimum.answer(predicates, three, epsilon=0.009)
    minimum.answer(predicates, three, epsilon=0.01)
    assert (limited.columns, limited.records) == (table.columns, 3)
    for name in ("queries", "minimum_epsilon"):
        refused(name, RestrictedInterface, table, **{name: math.nan})

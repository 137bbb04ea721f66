import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.attacks.query_adversary import Disagreement, EveryCell, SeenCells, VarianceAbove
from privcore.attacks.query_reconstruction import find_single, one_range, reconstruct_column
from privcore.attacks.query_targets import (
    any_record,
    confirm_unique,
    infer_attribute,
    infer_membership,
    probe_records,
)
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.local_sensitivity import BootstrapLaplace, KLaplace, Rounded
from privcore.mechanisms.threshold_queries import Column, Groups, RestrictedInterface
from tests.support.queries import attack, bank, domain, multiset
from tests.support.refusals import refused

INCOMES = np.array([5, 8, 15, 16, 17, 18]).reshape(-1, 1)


def test_example_3_5_six_incomes():
    """The paper's walk: 2 persons in [1, 10), by the answers at thresholds 3 and 2."""
    adversary = attack(INCOMES, (Column("income", 0, 63),))
    interface = adversary.interface
    below_ten = one_range(0, 1, 10)
    assert interface.answer(below_ten, np.array([3]), epsilon=1e-10).tolist() == [0.0]
    assert interface.answer(below_ten, np.array([2]), epsilon=1e-10)[0] not in {0.0, 1.0}
    assert adversary.counts(below_ten, np.array([6])).tolist() == [2]
    found = reconstruct_column(adversary, 0)
    assert found.cell.tolist() == INCOMES.ravel().tolist()
    assert adversary.claimed_budget < 0.01


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sides", [True, False])
def test_examples_3_8_and_3_9_on_every_count(k, sides):
    """A person known by a cell that 0 to n records share, n = 2k + 2; two queries each."""
    records = 2 * k + 2
    for count in range(records + 1):
        cells = (np.arange(records) >= count).astype(np.int64).reshape(-1, 1)
        rule = None if sides else VarianceAbove(400)
        mechanism = KLaplace(k, 0.0 if sides else 1.0)
        adversary = attack(cells, domain(3), k=k, rule=rule, mechanism=mechanism, seed=count)
        target = Groups((0,), np.array([[0]]))
        assert confirm_unique(adversary, target).tolist() == [count == 1]
        assert adversary.decisions == 2
        if sides or count <= 2 * k:
            assert infer_membership(adversary, target).tolist() == [count > 0]
            assert adversary.decisions == 4


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_targets_of_random_tables(data):
    k = data.draw(st.sampled_from([0, 1, 2]))
    records = data.draw(st.integers(max(2, 2 * k), 12))
    rows = data.draw(
        st.lists(
            st.tuples(*[st.integers(0, 2)] * 2, st.integers(-9, 9)),
            min_size=records,
            max_size=records,
        )
    )
    columns = (*domain(3, 3), Column("secret"))
    adversary = attack(np.array(rows), columns, k=k)
    everyone = np.array(list(itertools.product(range(3), repeat=2)))
    known = multiset(np.array(rows)[:, :2])
    targets = Groups((0, 1), everyone)
    counts = [known[tuple(target)] for target in everyone.tolist()]
    unique = confirm_unique(adversary, targets)
    assert unique.tolist() == [count == 1 for count in counts]
    assert infer_membership(adversary, targets).tolist() == [count > 0 for count in counts]
    if np.any(unique):
        # Example 3.10: the secret of everyone who is unique on the first two columns.
        found = infer_attribute(adversary, Groups((0, 1), everyone[unique]), 2)
        secrets = {row[:2]: row[2] for row in rows}
        assert found.tolist() == [secrets[tuple(t)] for t in everyone[unique].tolist()]


def test_membership_without_protection_takes_one_query_and_with_it_two():
    target = Groups((0,), np.array([[8]]))
    for k, queries in ((0, 1), (1, 2)):
        adversary = attack(INCOMES, (Column("income", 0, 63),), k=k)
        assert infer_membership(adversary, target).tolist() == [True]
        assert adversary.queries == queries


def test_a_limit_of_two_queries_does_not_keep_a_person_private():
    adversary = attack(INCOMES, (Column("income", 0, 63),))
    adversary.interface = RestrictedInterface(adversary.interface, queries=2)
    assert infer_membership(adversary, Groups((0,), np.array([[8]]))).tolist() == [True]


@pytest.mark.slow
def test_the_bank_targets_cost_what_was_published():
    """Table 3: 1,815 persons, 29.9 queries for the balance and 131.2 for the whole rest."""
    cells, columns = bank()
    names = [column.name for column in columns]
    linking = [names.index(n) for n in ("age", "marital", "education", "job", "housing")]
    persons, counts = np.unique(cells[:, linking], axis=0, return_counts=True)
    targets = Groups(tuple(linking), persons[counts == 1])
    assert targets.size == 1_815
    truth = {tuple(row[linking]): row for row in cells}
    rest = [column for column in range(len(names)) if column not in linking]
    for k in (0, 1):
        adversary = attack(cells, tuple(Column(name) for name in names), k=k)
        for column in rest:
            before = adversary.queries
            found = find_single(adversary, column, targets, EveryCell.of(columns[column]))
            if names[column] == "balance":
                assert round((adversary.queries - before) / targets.size, 1) == 29.9
            assert all(
                truth[tuple(person)][column] == cell
                for person, cell in zip(targets.cells, found, strict=True)
            )
        assert round(adversary.queries / targets.size, 1) == 131.2

    # Knowing the balances that exist, a person's takes fewer than half as many.
    adversary = attack(cells, columns)
    balance = names.index("balance")
    alone = reconstruct_column(adversary, balance)
    before = adversary.queries
    seen = SeenCells(alone.cell, alone.count)
    found = infer_attribute(adversary, targets, balance, seen)
    assert (adversary.queries - before) / targets.size < 13
    assert [truth[tuple(p)][balance] for p in targets.cells] == found.tolist()


def test_nothing_known_is_no_target():
    with pytest.raises(InvalidInputError, match="at least one column"):
        infer_membership(attack(INCOMES, (Column("income", 0, 63),)), Groups.everyone())


def probing(cells, columns, *, rule=None, mechanism=None):
    mechanism = mechanism or BootstrapLaplace()
    return attack(cells, columns, k=0, rule=rule, mechanism=mechanism)


def distinct(result):
    order = np.argsort(result.groups.columns)
    return set(map(tuple, result.groups.cells[:, order].tolist()))


def test_every_small_table_gives_its_distinct_records():
    pairs = list(itertools.product(range(2), range(3)))
    for records in range(1, 5):
        for rows in itertools.combinations_with_replacement(pairs, records):
            result = probe_records(probing(np.array(rows), domain(2, 3)))
            assert result.stopped is None
            assert distinct(result) == set(rows)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-90, 90), st.integers(0, 3)), min_size=1, max_size=12))
def test_random_tables_and_bounds_that_nobody_gave(rows):
    adversary = probing(np.array(rows), (Column("x"), Column("y", 0, 3)))
    result = probe_records(adversary)
    assert distinct(result) == set(rows)
    assert np.all(result.counts == 1)


def test_answers_rounded_to_a_bit_are_probed_by_repetition():
    rows = [(0, 1), (2, 2), (2, 2), (1, 0)]
    mechanism = Rounded(BootstrapLaplace(), to_bits=True)
    adversary = probing(np.array(rows), domain(3, 3), rule=Disagreement(40), mechanism=mechanism)
    assert distinct(probe_records(adversary)) == set(rows)


def test_what_was_learned_before_a_refusal_is_returned():
    adversary, limited = (probing(np.array([(0, 1), (2, 2)]), domain(3, 3)) for _ in range(2))
    probe_records(adversary)
    limited.interface = RestrictedInterface(limited.interface, queries=adversary.queries - 1)
    result = probe_records(limited)
    assert "refuses" in result.stopped
    assert len(result.groups.columns) == 1


def test_existence_needs_a_noiseless_zero():
    adversary = probing(np.array([[0], [1]]), domain(2), rule=VarianceAbove(10))
    refused("existence", any_record, adversary, one_range(0, 0, 1))

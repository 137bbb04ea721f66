import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.attacks.query_adversary import Disagreement, VarianceAbove
from privcore.attacks.query_reconstruction import one_range
from privcore.attacks.query_targets import any_record, probe_records
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.local_sensitivity import BootstrapLaplace, RoundedToBit
from privcore.mechanisms.threshold_queries import Column, RestrictedInterface
from tests.support.queries import attack, domain


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
    assert result.progress[-1].queries == adversary.queries


def test_answers_rounded_to_a_bit_are_probed_by_repetition():
    rows = [(0, 1), (2, 2), (2, 2), (1, 0)]
    mechanism = RoundedToBit(BootstrapLaplace())
    adversary = probing(np.array(rows), domain(3, 3), rule=Disagreement(40), mechanism=mechanism)
    assert distinct(probe_records(adversary)) == set(rows)


def test_what_was_learned_before_a_refusal_is_returned():
    adversary = probing(np.array([(0, 1), (2, 2)]), domain(3, 3))
    whole = probe_records(adversary).progress
    limited = probing(np.array([(0, 1), (2, 2)]), domain(3, 3))
    limited.interface = RestrictedInterface(limited.interface, queries=whole[0].queries)
    result = probe_records(limited)
    assert "refuses" in result.stopped
    assert [entry.column for entry in result.progress] == [whole[0].column]


def test_existence_needs_a_noiseless_zero():
    adversary = probing(np.array([[0], [1]]), domain(2), rule=VarianceAbove(10))
    with pytest.raises(InvalidInputError, match="existence"):
        any_record(adversary, one_range(0, 0, 1))

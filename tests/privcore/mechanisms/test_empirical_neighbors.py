import itertools

import pytest

from privcore.mechanisms.empirical_neighbors import (
    bootstrap_pairs,
    differential_privacy_pairs,
    individual_pairs,
    records_from_bootstrap_pairs,
    table_from_individual_pairs,
)

DOMAIN = ("a", "b", "c")


def tables(records):
    return itertools.combinations_with_replacement(DOMAIN, records)


@pytest.mark.parametrize("records", [2, 3, 4])
@pytest.mark.parametrize("k", [1, 2])
def test_lemma_5_3_the_pairs_of_group_idp_reveal_the_table(records, k):
    for table in tables(records):
        assert table_from_individual_pairs(individual_pairs(table, DOMAIN, k)) == table


@pytest.mark.parametrize("records", [1, 2, 3])
def test_lemma_5_3_the_pairs_of_bdp_reveal_the_distinct_records(records):
    for table in tables(records):
        found = records_from_bootstrap_pairs(bootstrap_pairs(table))
        # A table of one distinct record has no other table to be compared with: no pair at all.
        assert found == (frozenset(table) if len(set(table)) > 1 else frozenset())


def test_without_a_hint_the_pairs_are_those_of_differential_privacy():
    union = frozenset().union(*(individual_pairs(table, DOMAIN) for table in tables(3)))
    assert union == differential_privacy_pairs(DOMAIN, 3)


def test_one_pair_alone_does_not_tell_which_side_is_the_table():
    assert table_from_individual_pairs(frozenset()) is None
    assert table_from_individual_pairs(individual_pairs(("a",), ("a", "b"))) is None

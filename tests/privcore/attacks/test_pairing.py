"""Members beside records that training never saw: what pairs are made of, and what decides them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from privcore.attacks import generator, odds_tally, own_label, pair
from privcore.attacks.matching import SHARES
from privcore.attacks.odds import OddsTally
from privcore.exceptions import InvalidInputError


def arm(target, proxy):
    """Return the tally of records whose own label has these log-odds."""
    columns = [expit(np.atleast_1d(np.asarray(odds, dtype=float))) for odds in (target, proxy)]
    both = [np.stack([1.0 - own, own], axis=1) for own in columns]
    return odds_tally(*both, np.ones(len(columns[0]), dtype=np.int64))


def found(training, control, seed=0):
    return pair(training, control, random=generator(seed))


def test_own_label_takes_each_records_label_of_both_models():
    target, proxy = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]), np.full((2, 3), 1 / 3)
    of_target, of_proxy, labels = own_label(target, proxy, np.array([2, 0]))
    assert of_target[:, 1].tolist() == [0.5, 0.1]
    assert of_proxy[:, 1] == pytest.approx(1 / 3)
    assert labels.tolist() == [1, 1]
    for strange in (np.array([3, 0]), np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(InvalidInputError):
            own_label(target, proxy, strange)


def test_all_pairs_are_right_where_members_are_always_likelier():
    sets = found(arm([2.0] * 30, [0.0] * 30), arm([-2.0] * 10, [0.0] * 10))
    both = [(one.records.tolist(), one.right.tolist()) for one in sets]
    assert both == [([10], [10])] * len(SHARES)
    sets = found(arm([-2.0] * 30, [0.0] * 30), arm([2.0] * 10, [0.0] * 10))
    assert [one.right.tolist() for one in sets] == [[0]] * len(SHARES)
    assert sets[0].all_right().right.tolist() == [10]


def test_records_are_paired_within_what_the_proxy_says():
    """Members are likelier in one bin and holdout records in the other: half of the pairs each."""
    training = arm([2.0] * 8 + [-2.0] * 8, [1.0] * 8 + [-3.0] * 8)
    control = arm([-2.0] * 8 + [2.0] * 4, [1.0] * 8 + [-3.0] * 4)
    everything = found(training, control)[0]
    assert (everything.records.tolist(), everything.right.tolist()) == ([12], [8])


def test_ties_and_records_without_a_partner_tell_nothing():
    for training, control in (
        (arm([1.0] * 5, [0.0] * 5), arm([1.0] * 5, [0.0] * 5)),
        (arm([1.0] * 5, [0.0] * 5), arm([-1.0] * 5, [2.0] * 5)),
        (arm([1.0] * 5, [0.0] * 5), OddsTally.zero()),
    ):
        assert [one.records.size for one in found(training, control)] == [0] * len(SHARES)


def test_sets_hold_the_pairs_that_differ_most():
    random = np.random.default_rng(3)
    training = arm(random.normal(0.5, 2.0, 4000), np.zeros(4000))
    control = arm(random.normal(0.0, 2.0, 1000), np.zeros(1000))
    sets = found(training, control)
    pairs = [int(one.records[0]) for one in sets]
    assert pairs[0] <= 1000
    for share, number in zip(SHARES, pairs, strict=True):
        assert share * pairs[0] <= number <= share * pairs[0] + 60
    rates = [int(one.right[0]) / number for one, number in zip(sets, pairs, strict=True)]
    assert rates[0] > 0.53
    assert rates[2] > rates[1] > rates[0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=1, max_size=40),
    st.integers(0, 9),
)
def test_pairs_are_counted_as_a_walk_through_the_bins_counts_them(members, others, seed):
    """Exchanging the arms exchanges right and wrong; no more pairs than the smaller arm has."""
    training, control = (arm(*np.array(rows).T / 4.0) for rows in (members, others))
    one = found(training, control, seed)[0]
    bins = [[proxy for _, proxy in rows] for rows in (members, others)]
    most = sum(min(bins[0].count(proxy), bins[1].count(proxy)) for proxy in set(bins[0]))
    number, right = int(one.records.sum()), int(one.right.sum())
    assert 0 <= right <= number <= most
    lead = [t - o for t, p in members for o, q in others if p == q]
    assert (number > 0) <= any(lead)
    if all(step > 0 for step in lead):
        assert right == number == most


@pytest.mark.slow
def test_pairs_are_drawn_at_random_and_in_proportion():
    """Each of 3 x 3 pairs is equally likely; the naive twin pairs permutations, 400 times."""
    members, others = [0.0, 1.0, 2.0], [-1.0, 1.5, 1.0]
    training, control = arm(members, np.zeros(3)), arm(others, np.zeros(3))
    random = np.random.default_rng(11)
    twin, ours = [], []
    for seed in range(400):
        shuffled = random.permutation(others)
        lead = np.array(members) - shuffled
        twin.append((np.sum(lead != 0.0), np.sum(lead > 0.0)))
        one = found(training, control, seed)[0]
        ours.append((one.records.sum(), one.right.sum()))
    kinds = sorted(set(twin))
    assert sorted(set(ours)) == kinds
    for kind in kinds:
        expected = twin.count(kind) / 400
        assert ours.count(kind) / 400 == pytest.approx(expected, abs=5 * (0.5 / 400) ** 0.5)

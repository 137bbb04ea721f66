"""Numbers as labels: two classes by the proxy's prediction, and what is proved of them.

Rates are judged with an exact binomial test at level 1e-6; every test states its N and seed.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks import (
    RankedPredictions,
    ScoredRecords,
    above,
    above_odds,
    borders,
    fit_of,
    nearness,
    places,
    score_named,
    unit_records,
    unit_tallies,
)
from privcore.attacks.known_labels import advantage
from privcore.attacks.odds import PLACES
from privcore.exceptions import InvalidInputError
from tests.number_worlds import CLAIM, bound, numbers, uneven
from tests.simulate import assert_rate_at_most
from tests.support.tiers import rest_slow, tiered

WHOLE = st.floats(-1e300, 1e300)


def test_a_label_is_above_where_it_is_larger_and_a_tie_is_not():
    labels, proxy = np.array([1.0, 2.0, 2.0, -5.0]), np.array([0.5, 2.0, 2.5, -6.0])
    assert above(labels, proxy).tolist() == [1, 0, 0, 1]


@given(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=20))
def test_surety_has_the_side_of_the_distance_and_grows_with_it(pairs):
    target, proxy = np.array(pairs).T
    sure, undecided = above_odds(target, proxy)
    assert np.all(undecided == 0.5)
    np.testing.assert_allclose(sure.sum(axis=1), 1.0)
    assert np.all((sure[:, 1] > 0.5) == (target > proxy))
    assert np.all((sure[:, 1] < 0.5) == (target < proxy))
    apart = np.abs(target / 2.0 - proxy / 2.0)
    ordered = np.abs(logit(sure[:, 1]))[np.argsort(apart)]
    assert np.all(np.diff(ordered) >= -1e-6)


def test_an_octave_is_a_bin_and_the_unit_only_moves_them():
    apart = 2.0 ** np.arange(-20, 21)
    sure = logit(above_odds(apart, np.zeros(apart.size))[0][:, 1])
    np.testing.assert_allclose(sure, 7.0 + np.arange(-20, 21) / 8.0, rtol=1e-9)
    # Beyond what any unit needs it stays as it is, and below the tally's floor.
    ends = logit(above_odds(np.array([1e300, 1e-300]), np.zeros(2))[0][:, 1])
    np.testing.assert_allclose(ends, [13.5, 0.5], rtol=1e-9)


def test_nearness_is_half_at_one_and_whole_at_nothing():
    near = nearness(np.array([0.0, 1.0, 2.0, 5.0, 1e300]), np.array([0.0, 2.0, 0.0, 5.0, -1e300]))
    np.testing.assert_allclose(near, [1.0, 0.5, 0.5 - 1 / 128, 1.0, 0.0], rtol=1e-12)


@pytest.mark.parametrize("function", [above, above_odds, nearness])
def test_what_is_no_number_is_refused(function):
    for odd in (np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="finite"):
            function(np.array([1.0, odd]), np.zeros(2))
        with pytest.raises(InvalidInputError, match="finite"):
            function(np.zeros(2), np.array([1.0, odd]))
    with pytest.raises(InvalidInputError, match="shape"):
        function(np.zeros(2), np.zeros(3))


WORLDS = {
    "right": {},
    "skewed": {"skewed": True},
    "drift that the target learned": {"drift": 0.7},
    "a poor proxy": {"poor": 1.0},
    "all of it": {"skewed": True, "drift": -0.7, "poor": 1.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("world", rest_slow(WORLDS, always=2))
@pytest.mark.parametrize("rows", tiered([300, 3_000], always=1, slow=1))
def test_a_target_that_remembers_no_number_is_not_accused(world, rows):
    """N = 100 audits of each world and size, seed 95: with a fifth held out, above 0 is wrong."""
    random = np.random.default_rng(95)
    wrong = 0
    for audit in range(100):
        labels, proxy, target, held = numbers(random, rows, **WORLDS[world])
        wrong += bound(target, proxy, labels, held, audit) > 0.0
    assert_rate_at_most(wrong, 100, CLAIM.significance)


UNEVEN = {"right": {}, "a poor proxy": {"poor": 0.1}, "drift": {"drift": 4.0}}


@pytest.mark.slow
@pytest.mark.parametrize("world", rest_slow(UNEVEN))
@pytest.mark.parametrize("rows", tiered([1_200, 300, 5_000], always=1, slow=2))
def test_a_holdout_that_is_drawn_unevenly_accuses_nobody(world, rows):
    """N = 100 audits of each world and size, seed 99: the proxy tells the segments apart.

    Matched by nothing, 5,000 rows accused 53, 93 and all of a hundred.
    """
    random = np.random.default_rng(99)
    wrong = 0
    for audit in range(100):
        labels, proxy, target, held = uneven(random, rows, **UNEVEN[world])
        wrong += bound(target, proxy, labels, held, audit) > 0.0
    assert_rate_at_most(wrong, 100, CLAIM.significance)


def test_a_target_that_remembers_is_found_where_the_holdout_is_uneven():
    """N = 10 audits of 5,000 rows, seed 100, with a poor proxy."""
    random = np.random.default_rng(100)
    bounds = []
    for audit in range(10):
        labels, proxy, target, held = uneven(random, 5_000, poor=0.1)
        remembered = target + np.where(held, 0.0, 0.9 * (labels - target))
        bounds.append(bound(remembered, proxy, labels, held, audit))
    assert min(bounds) > 2.5


def test_persons_are_matched_by_the_place_of_their_record():
    """A person has two rows. In every tally the row of the record that plays counts."""
    random = np.random.default_rng(101)
    labels, proxy, target, held = uneven(random, 2_000)
    order = places(proxy, borders(proxy))
    sure, even = above_odds(target, proxy)
    classes, near = above(labels, proxy), nearness(labels, proxy)
    records = ScoredRecords(sure, even, classes, 2, undecided=RankedPredictions(near, order))
    arms = [
        unit_records(records.of(rows), rows // 2, unit_key=1)
        for rows in (np.flatnonzero(~held), np.flatnonzero(held))
    ]
    assert {*arms[0].moved.order, *arms[1].moved.order} <= {*order}
    found = unit_tallies(*arms, score=score_named("power"), repetitions=1, key=3, ordered=True)
    assert found.ordered
    held_out = arms[1].without(arms[0]).moved.order
    counted = sum(odds.counts for odds in found.bet_on.control_odds).sum(axis=(1, 2))
    np.testing.assert_array_equal(counted, np.bincount(held_out, minlength=PLACES))
    public = [arm.unread() for arm in arms]
    told = unit_tallies(*public, score=score_named("power"), repetitions=1, key=3, ordered=True)
    counted = sum(odds.counts for odds in told.bet_on.control_unread).sum(axis=(1, 2))
    np.testing.assert_array_equal(counted, np.bincount(held_out, minlength=PLACES))
    believed = found.believed()
    assert not believed.ordered
    assert sum(odds.counts[PLACES // 2].sum() for odds in believed.control_odds) == held_out.size


@pytest.mark.parametrize("world", WORLDS)
def test_a_target_that_remembers_numbers_is_found(world):
    """N = 10 audits of 5,000 rows, seed 96: it predicts 0.9 of what is left of training labels."""
    random = np.random.default_rng(96)
    bounds = []
    for audit in range(10):
        labels, proxy, target, held = numbers(random, 5_000, **WORLDS[world])
        remembered = target + np.where(held, 0.0, 0.9 * (labels - target))
        bounds.append(bound(remembered, proxy, labels, held, audit))
    assert min(bounds) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "least"), tiered([(2.0, 1.6), (1.0, 0.7), (4.0, 3.4)], always=1, slow=2)
)
def test_a_noisy_side_is_bounded_by_its_epsilon_and_nearly_found(epsilon, least):
    """N = 100 audits of 5,000 rows, seed 97: each training label's side by randomized response.

    For this target the side's epsilon is the label's, so no mean bound may exceed it.
    """
    random = np.random.default_rng(97)
    bounds = []
    for audit in range(100):
        labels, proxy, target, held = numbers(random, 5_000)
        told = (labels > proxy) == (random.random(5_000) < expit(epsilon))
        target = np.where(held, target, proxy + np.where(told, 1.0, -1.0))
        bounds.append(bound(target, proxy, labels, held, audit))
    assert_rate_at_most(int(np.sum(np.array(bounds) > epsilon)), 100, CLAIM.significance)
    assert np.mean(bounds) > least


def test_a_proxy_that_knows_training_numbers_is_seen_by_their_nearness():
    """N = 100 days of 2,000 rows, seed 98; knowing half of what is left, it is 3 errors apart."""
    random = np.random.default_rng(98)
    honest, knowing = [], []
    for _ in range(100):
        labels, proxy, _, held = numbers(random, 2_000, skewed=True)
        known = proxy + np.where(held, 0.0, 0.5 * (labels - proxy))
        for found, predicted in ((honest, proxy), (knowing, known)):
            near = nearness(labels, predicted)
            found.append(advantage([(fit_of(near[~held]), fit_of(near[held]))]))
    assert min(knowing) > 3.0
    assert np.abs(honest).max() < 4.0

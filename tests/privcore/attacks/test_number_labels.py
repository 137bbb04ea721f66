"""Numbers as labels: two classes by the proxy's prediction, and what is proved of them.

Rates are judged with an exact binomial test at level 1e-6; every test states its N and seed.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks import above, above_odds, fit_of, match, nearness, odds_tally
from privcore.attacks.known_labels import advantage
from privcore.exceptions import InvalidInputError
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, matched_epsilon_lower, stakes_for
from tests.simulate import assert_rate_at_most

CLAIM = Claim(PureDP(), 0.0, significance=0.04, epsilon=1.0)
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


def bound(target, proxy, labels, held, seed):
    classes, (sure, undecided) = above(labels, proxy), above_odds(target, proxy)
    training, control = (
        odds_tally(sure[arm], undecided[arm], classes[arm]) for arm in (~held, held)
    )
    stakes = stakes_for(CLAIM, records=training.records, classes=2)
    tables = match([training], [control], random=np.random.default_rng(seed))
    return matched_epsilon_lower(tables, stakes=stakes)


def numbers(random, rows, *, skewed=False, drift=0.0, poor=0.0):
    """Labels, what a proxy predicts that is `poor`, what a target learned of the rest, and arms."""
    known = random.normal(0.0, 1.0, rows)
    labels = known + drift + random.normal(0.0, 1.0, rows)
    proxy = known + random.normal(0.0, poor, rows)
    target = known + drift + random.normal(0.0, 0.1, rows)
    if skewed:
        labels, proxy, target = np.exp(labels), np.exp(proxy), np.exp(target)
    return labels, proxy, target, random.random(rows) < 0.2


WORLDS = {
    "right": {},
    "skewed": {"skewed": True},
    "drift that the target learned": {"drift": 0.7},
    "a poor proxy": {"poor": 1.0},
    "all of it": {"skewed": True, "drift": -0.7, "poor": 1.0},
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rows", [300, 3_000])
def test_a_target_that_remembers_no_number_is_not_accused(world, rows):
    """N = 100 audits of each world and size, seed 95: with a fifth held out, above 0 is wrong."""
    random = np.random.default_rng(95)
    wrong = 0
    for audit in range(100):
        labels, proxy, target, held = numbers(random, rows, **WORLDS[world])
        wrong += bound(target, proxy, labels, held, audit) > 0.0
    assert_rate_at_most(wrong, 100, CLAIM.significance)


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


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.7), (2.0, 1.6), (4.0, 3.4)])
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

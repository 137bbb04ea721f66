import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, norm

from privcore.exceptions import InvalidInputError
from privcore.guarantees import gaussian_delta
from privcore.mechanisms import NoisyMax, count_votes
from tests.support.refusals import refused


def moved(votes):
    """Yield the votes of every dataset with one label replaced: one vote moves."""
    for source, sink in itertools.permutations(range(len(votes)), 2):
        if votes[source] > 0:
            other = votes.copy()
            other[source] -= 1
            other[sink] += 1
            yield other


@st.composite
def ballots(draw):
    classes = draw(st.integers(2, 6))
    votes = draw(st.lists(st.integers(0, 12), min_size=classes, max_size=classes).filter(sum))
    return np.array(votes, dtype=np.float64)


@settings(max_examples=20, deadline=None)
@given(ballots(), st.floats(0.3, 5.0))
def test_one_moved_vote_changes_a_laplace_answer_by_at_most_e_to_the_epsilon(votes, scale):
    mechanism = NoisyMax("laplace", scale, queries=1)
    answer = mechanism.distribution(votes)
    assert answer.sum() == pytest.approx(1.0, abs=1e-7)
    for other in moved(votes):
        assert np.all(answer <= math.exp(mechanism.epsilon) * mechanism.distribution(other) + 1e-8)


@settings(max_examples=20, deadline=None)
@given(ballots(), st.floats(0.5, 10.0))
def test_one_moved_vote_keeps_a_gaussian_answer_within_its_delta(votes, deviation):
    mechanism = NoisyMax("gaussian", deviation, queries=1, delta=1e-5)
    answer = mechanism.distribution(votes)
    assert answer.sum() == pytest.approx(1.0, abs=1e-7)
    mu = math.sqrt(2.0) / deviation
    for other in moved(votes):
        near = mechanism.distribution(other)
        for epsilon in (0.1, 1.0):
            lost = np.maximum(answer - math.exp(epsilon) * near, 0.0).sum()
            assert lost <= gaussian_delta(mu, epsilon=epsilon) + 1e-7


def test_two_gaussian_counts_have_a_closed_form():
    """P(the first of two wins) = Phi(lead / (deviation sqrt 2))."""
    mechanism = NoisyMax("gaussian", 3.0, queries=1, delta=1e-5)
    expected = norm.cdf(4.0 / (3.0 * math.sqrt(2.0)))
    assert mechanism.distribution(np.array([7.0, 3.0]))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_answers_follow_the_distribution_and_a_30_percent_error_is_caught(noise):
    """N = 50,000 queries, seed 17, judged at level 1e-6 both ways."""
    votes, queries = np.array([6.0, 3.0, 1.0]), 50_000
    delta = 1e-5 if noise == "gaussian" else 0.0
    mechanism = NoisyMax(noise, 3.0, queries=queries, delta=delta)
    answers = mechanism.sample(np.tile(votes, (queries, 1)), np.random.default_rng(17))
    counts = np.bincount(answers, minlength=3)
    assert chisquare(counts, _scaled(mechanism.distribution(votes), queries)).pvalue > 1e-6
    wrong = NoisyMax(noise, 3.9, queries=queries, delta=delta).distribution(votes)
    assert chisquare(counts, _scaled(wrong, queries)).pvalue < 1e-6


def drawn_shares(votes, scale):
    """The chance of each of two answers, by quadrature over both counts' Laplace noises."""
    nodes, weights = np.polynomial.legendre.leggauss(160)
    counts, masses = [], []
    for count in votes:
        ends = np.unique(np.clip([-60.0 * scale, -count, 0.0, 60.0 * scale], -60 * scale, None))
        middle, half = (ends[1:] + ends[:-1]) / 2.0, np.diff(ends) / 2.0
        points = (middle[:, None] + half[:, None] * nodes).ravel()
        counts.append(np.maximum(count + points, 0.0))
        masses.append(
            (half[:, None] * weights).ravel() * np.exp(-np.abs(points) / scale) / (2.0 * scale)
        )
    total = counts[0][:, None] + counts[1]
    share = np.where(total > 0.0, counts[1] / np.where(total > 0.0, total, 1.0), 0.5)
    second = float(masses[0] @ share @ masses[1])
    return np.array([1.0 - second, second])


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_an_answer_drawn_in_proportion_moves_by_at_most_e_to_the_epsilon(scale):
    """All votes of 6 teachers on two classes, exactly."""
    epsilon = NoisyMax("laplace", scale, queries=1).epsilon
    for first in range(7):
        votes = np.array([first, 6 - first], dtype=float)
        answer = drawn_shares(votes, scale)
        for other in moved(votes):
            assert np.all(answer <= math.exp(epsilon) * drawn_shares(other, scale) + 1e-9)


def test_answers_are_drawn_in_proportion_and_a_30_percent_error_is_caught():
    """N = 50,000 queries, seed 23, judged at level 1e-6 both ways."""
    votes, queries = np.array([6.0, 2.0]), 50_000
    mechanism = NoisyMax("laplace", 2.0, queries=queries)
    answers = mechanism.sample_in_proportion(
        np.tile(votes, (queries, 1)), np.random.default_rng(23)
    )
    counts = np.bincount(answers, minlength=2)
    assert chisquare(counts, _scaled(drawn_shares(votes, 2.0), queries)).pvalue > 1e-6
    assert chisquare(counts, _scaled(drawn_shares(votes, 2.6), queries)).pvalue < 1e-6


def test_without_noise_answers_are_drawn_from_the_votes_and_nobody_s_votes_are_a_fair_coin():
    """N = 20,000 queries of each kind, seed 29: within 5 deviations."""
    queries = 40_000
    mechanism = NoisyMax("laplace", 0.0, queries=queries)
    votes = np.repeat([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]], queries // 2, axis=0)
    answers = mechanism.sample_in_proportion(votes, np.random.default_rng(29))
    voted, nobody = np.split(answers, 2)
    assert np.bincount(voted, minlength=3) / 20_000 == pytest.approx([0.75, 0.25, 0.0], abs=0.016)
    assert np.bincount(nobody, minlength=3) / 20_000 == pytest.approx([1 / 3] * 3, abs=0.017)
    with pytest.raises(InvalidInputError, match="exactly 40000 queries"):
        mechanism.sample_in_proportion(np.ones((2, 2)), np.random.default_rng(0))


def _scaled(shares, total):
    return shares / shares.sum() * total


@pytest.mark.slow
@settings(deadline=None)
@given(st.floats(0.05, 10.0), st.integers(1, 2_000))
def test_the_account_is_what_was_asked_for(epsilon, queries):
    for noise, delta in (("laplace", 0.0), ("gaussian", 1e-5)):
        mechanism = NoisyMax.from_epsilon(epsilon, noise=noise, queries=queries, delta=delta)
        assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-4, 1e-5])
@pytest.mark.parametrize(("epsilon", "queries"), [(8.0, 200), (1.0, 200), (0.1, 20), (4.0, 1)])
def test_laplace_noise_at_a_delta_is_that_of_the_published_bound(epsilon, queries, delta):
    """Papernot et al. 2017, section 3.1, of which the accountant finds at most the same."""
    mechanism = NoisyMax.from_epsilon(epsilon, noise="laplace", queries=queries, delta=delta)
    inverse = 1.0 / mechanism.scale
    bound = 4.0 * queries * inverse**2
    bound += 2.0 * inverse * math.sqrt(2.0 * queries * math.log(1.0 / delta))
    assert bound == pytest.approx(epsilon, rel=1e-9)
    assert mechanism.epsilon <= epsilon


def test_the_setup_of_wu_et_al_has_a_laplace_scale_of_20():
    """Their command's `--result_noise 20` with 200 samples; their code prints 8.07 at 1e-4."""
    theirs = 4 * 200 / 20**2 + 2 / 20 * math.sqrt(2 * 200 * math.log(1e4))
    assert theirs == pytest.approx(8.07, abs=0.005)
    ours = NoisyMax.from_epsilon(theirs, noise="laplace", queries=200, delta=1e-4)
    assert ours.scale == pytest.approx(20.0)


def test_infinity_is_the_plurality():
    for noise, delta in (("laplace", 0.0), ("gaussian", 1e-5)):
        mechanism = NoisyMax.from_epsilon(math.inf, noise=noise, queries=2, delta=delta)
        votes = np.array([[3.0, 5.0], [9.0, 1.0]])
        assert mechanism.sample(votes, np.random.default_rng(0)).tolist() == [1, 0]
        assert mechanism.distribution(votes[0]).tolist() == [0.0, 1.0]
        assert math.isinf(mechanism.epsilon)


def test_votes_are_counted_per_query():
    answers = np.array([[0, 2], [1, 2], [0, 2]])
    assert count_votes(answers, 3).tolist() == [[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]


def test_bad_input_is_named():
    refused("noise is 'cauchy'", NoisyMax, "cauchy", 1.0, 1)
    refused("scale is -1", NoisyMax, "laplace", -1.0, 1)
    refused("queries is 0", NoisyMax, "laplace", 1.0, 0)
    refused("Gaussian noise needs a delta", NoisyMax, "gaussian", 1.0, 1)
    with pytest.raises(InvalidInputError, match=r"delta is 1\.0, but it is at least 0 and below 1"):
        NoisyMax("laplace", 1.0, 1, delta=1.0)
    for epsilon in (0.0, -2.0, math.nan):
        refused("epsilon is", NoisyMax.from_epsilon, epsilon, noise="laplace", queries=1)
    mechanism = NoisyMax("laplace", 1.0, 2)
    refused("exactly 2 queries", mechanism.sample, np.ones((3, 2)), np.random.default_rng(0))
    refused("counts of at least 0", mechanism.sample, -np.ones((2, 2)), np.random.default_rng(0))
    refused("answers is", count_votes, np.array([[0, 3]]), 3)

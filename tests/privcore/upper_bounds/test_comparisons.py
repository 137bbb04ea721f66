"""Other theorems' bounds beside ours: their order, closed forms, and attacks that obey them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, Gaussian, PureDP
from privcore.upper_bounds import (
    narcissus_bound,
    reconstruction_robustness,
    success_bound,
    tradeoff_success_bound,
)


@settings(deadline=None)
@given(st.floats(1e-9, 1.0), st.floats(0.0, 30.0), st.floats(0.0, 0.5))
def test_ours_is_never_above(prior, epsilon, delta):
    ours = success_bound(prior, epsilon=epsilon, delta=delta)
    assert ours <= narcissus_bound(prior, epsilon=epsilon, delta=delta) * (1.0 + 1e-12)
    pure = success_bound(prior, epsilon=epsilon)
    assert pure <= reconstruction_robustness(prior, epsilon=epsilon) * (1.0 + 1e-12)


def test_limits():
    assert reconstruction_robustness(0.0, epsilon=np.inf) == 0.0
    assert reconstruction_robustness(0.3, epsilon=np.inf) == 1.0
    assert reconstruction_robustness(0.3, epsilon=0.0) == pytest.approx(0.3, rel=1e-15)
    assert narcissus_bound(0.0, epsilon=2.0, delta=0.1) == 0.1


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 10**9), st.floats(0.0, 20.0), st.floats(0.0, 0.3))
def test_tradeoff_bound_in_closed_form(choices, epsilon, delta):
    pure = success_bound(1.0 / choices, epsilon=epsilon)
    found = tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta))
    assert found == pytest.approx(pure + delta * (1.0 - pure), rel=1e-6)
    assert tradeoff_success_bound(choices, guarantee=PureDP(epsilon)) == pytest.approx(pure, 1e-6)


def test_tradeoff_bound_of_gaussian_dp_for_a_bit():
    for mu in (0.0, 0.1, 1.0, 5.0):
        expected = norm.cdf(mu / 2.0)
        assert tradeoff_success_bound(2, guarantee=Gaussian(mu)) == pytest.approx(expected, 1e-9)


def test_an_attack_on_the_gaussian_mechanism_obeys_the_tradeoff_bound():
    # N = 200,000 secrets of 4 values, as orthogonal vectors at distance mu = 1.5; judged at 1e-6.
    # The best attack comes within 10% of the bound, and breaks that for a mu that is 30% smaller.
    generator = np.random.default_rng(17)
    noisy = generator.standard_normal((200_000, 4))
    noisy[:, 0] += 1.5 / math.sqrt(2.0)
    successes = int(np.sum(noisy.argmax(axis=1) == 0))
    bound = float(tradeoff_success_bound(4, guarantee=Gaussian(1.5)))
    wrong = float(tradeoff_success_bound(4, guarantee=Gaussian(1.5 * 0.7)))
    assert binomtest(successes, 200_000, bound, alternative="greater").pvalue > 1e-6
    assert binomtest(successes, 200_000, wrong, alternative="greater").pvalue < 1e-6
    assert successes / 200_000 > 0.9 * bound


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: reconstruction_robustness(2.0, epsilon=1.0), "prior is 2.0"),
        (lambda: narcissus_bound(0.5, epsilon=1.0, delta=1.0), "delta is 1.0"),
        (lambda: tradeoff_success_bound(1, guarantee=PureDP(1.0)), "choices is 1.0"),
        (lambda: tradeoff_success_bound(2, guarantee=PureDP()), "epsilon is None"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(InvalidInputError, match=name):
        call()


def response(epsilon, classes):
    """Randomized response: run[secret, answer]."""
    run = np.ones((classes, classes)) + (np.exp(epsilon) - 1.0) * np.eye(classes)
    return run / run.sum(axis=1, keepdims=True)


@pytest.mark.paper("worst_case", "Section 4.1")
@pytest.mark.parametrize("classes", [2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_multi_membership_by_randomized_response_reaches_its_bound(classes, epsilon):
    # Each of `classes` canaries is as likely, and the answer names the true one most often.
    run = response(epsilon, classes)
    reached = run.max(axis=0).sum() / classes
    found = tradeoff_success_bound(classes, guarantee=PureDP(epsilon))
    assert reached == pytest.approx(float(found), rel=1e-6)
    # "Closely aligns with MMC for uniform priors": without delta it is the same number.
    assert success_bound(1.0 / classes, epsilon=epsilon) == pytest.approx(reached, rel=1e-12)


@pytest.mark.paper("worst_case", "Section 4.3")
@pytest.mark.parametrize("seed", range(20))
def test_no_reconstruction_within_a_distance_exceeds_equation_1(seed):
    # Five values on a line, read right within 0, 1 or 2 of the truth; every output's best attempt.
    random = np.random.default_rng([0, seed])
    prior = random.dirichlet(np.full(5, 0.6))
    run = np.exp(random.uniform(0.0, 2.0, (5, 4)))
    run /= run.sum(axis=1, keepdims=True)
    epsilon = float(np.log(run[:, None] / run[None]).max())
    for distance in (0, 1, 2):
        near = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) <= distance
        heaviest = min(1.0, float((prior @ near).max()))
        reached = float(((prior[:, None] * run).T @ near).max(axis=1).sum())
        assert reached <= reconstruction_robustness(heaviest, epsilon=epsilon) + 1e-12
        assert reached <= success_bound(heaviest, epsilon=epsilon) + 1e-12


@pytest.mark.paper("worst_case", "Section 4.3, distributional ReRo")
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_one_attempt_on_many_targets_hits_no_more_than_the_sum_of_their_bounds(epsilon):
    # Three targets of four values with priors of their own; all 64 outputs of randomized response,
    # and at each the attempt that hits most targets.
    random = np.random.default_rng(18)
    priors, run = random.dirichlet(np.full(4, 0.8), 3), response(epsilon, 4)
    joint = priors[:, :, None] * run  # target, secret, answer
    outputs = np.indices((4,) * 3).reshape(3, -1).T
    likely = joint.sum(axis=1)  # target, answer
    chance = np.prod([likely[target, outputs[:, target]] for target in range(3)], axis=0)
    hits = sum(
        joint[target][:, outputs[:, target]] / likely[target, outputs[:, target]]
        for target in range(3)
    )
    reached = float(chance @ hits.max(axis=0))
    bounds = success_bound(priors.max(axis=1), epsilon=epsilon)
    robust = reconstruction_robustness(priors.max(axis=1), epsilon=epsilon)
    assert chance.sum() == pytest.approx(1.0)
    assert reached <= float(bounds.sum()) <= float(robust.sum())
    # One attempt has one prior for each target, and at any single output that decides.
    for attempt in range(4):
        posterior = hits[attempt] / 3.0
        own = success_bound(priors[:, attempt], epsilon=epsilon)
        assert posterior.max() <= float(own.mean()) + 1e-12


@pytest.mark.paper("worst_case", "Section 7.1")
@pytest.mark.parametrize("seed", range(20))
def test_a_prior_that_is_off_by_so_much_for_the_attempt_moves_the_bound_by_no_more(seed):
    # The attacker believes in another distribution; only how far the attempt's own chance is off
    # counts, here exactly. Every output of a random mechanism on four values.
    random = np.random.default_rng([71, seed])
    truth, believed = random.dirichlet(np.ones(4), 2)
    run = np.exp(random.uniform(0.0, 1.5, (4, 5)))
    run /= run.sum(axis=1, keepdims=True)
    epsilon = float(np.log(run[:, None] / run[None]).max())
    posterior = truth[:, None] * run / (truth @ run)
    attempts = (believed[:, None] * run).argmax(axis=0)
    for output, attempt in enumerate(attempts):
        off = max(0.0, truth[attempt] - believed[attempt])
        bound = success_bound(min(1.0, believed[attempt] + off), epsilon=epsilon)
        assert posterior[attempt, output] <= bound + 1e-12
    # Without the difference it is no bound: a value that is thought rare and is not.
    sure = response(0.1, 2)
    assert 0.9 * sure[0, 0] / (np.array([0.9, 0.1]) @ sure[:, 0]) > success_bound(0.1, epsilon=0.1)

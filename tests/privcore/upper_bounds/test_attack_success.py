"""One guess: published figures, limits, exactness on randomized response, monotonicity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    bits_leaked,
    epsilon_protect,
    generalised_advantage,
    success_bound,
)

priors = st.floats(1e-12, 1.0 - 1e-9)
epsilons = st.floats(0.0, 60.0)


def ordered(numbers):
    return st.tuples(numbers, numbers).map(sorted)


def advantage_at(prior, epsilon):
    return generalised_advantage(prior, success_bound(prior, epsilon=epsilon))


@pytest.mark.parametrize("prior", [0.0, 1e-300, 1e-9, 0.3, 0.5, 0.9, 1.0])
def test_limits(prior):
    assert success_bound(prior, epsilon=0.0) == prior
    assert success_bound(prior, epsilon=np.inf) == (0.0 if prior == 0.0 else 1.0)
    assert success_bound(prior, epsilon=5000.0) == (0.0 if prior == 0.0 else 1.0)
    assert generalised_advantage(prior, prior) == 0.0
    assert epsilon_protect(prior, advantage=0.0) == 0.0
    assert epsilon_protect(prior, advantage=1.0) == np.inf


def test_limits_of_delta_and_bits():
    assert success_bound(0.9999, epsilon=3.0, delta=0.5) == 1.0
    assert success_bound(0.0, epsilon=3.0, delta=0.25) == 0.25
    assert epsilon_protect(0.0, advantage=0.05) == np.inf
    assert bits_leaked(1.0, epsilon=3.0) == 0.0
    assert bits_leaked(0.0, epsilon=0.0) == np.inf
    assert bits_leaked(0.5, epsilon=np.inf) == np.inf
    assert bits_leaked(1.0, epsilon=np.inf) == np.inf
    assert bits_leaked(2.0**-7, epsilon=0.0) == pytest.approx(7.0, rel=1e-14)


@pytest.mark.parametrize("prior", [1e-200, 1e-9, 0.01, 0.5, 1.0 - 1e-12])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 20.0, 600.0])
def test_against_mpmath(prior, epsilon):
    with mp.workdps(60):
        growth, p = mp.exp(mpf(epsilon)), mpf(prior)
        success = growth / (growth - 1 + 1 / p)
        bits = mp.log(growth * (1 / p - 1) + 1, 2)
        protect = mp.log(1 + mpf(0.05) / ((1 - mpf(0.05)) * p))
    assert success_bound(prior, epsilon=epsilon) == pytest.approx(float(success), rel=1e-13)
    assert bits_leaked(prior, epsilon=epsilon) == pytest.approx(float(bits), rel=1e-10)
    assert epsilon_protect(prior, advantage=0.05) == pytest.approx(float(protect), rel=1e-13)


@settings(deadline=None)
@given(ordered(priors), ordered(epsilons), ordered(st.floats(0.0, 0.5)))
def test_monotone_and_above_the_prior(prior, epsilon, delta):
    low, high = (success_bound(prior[i], epsilon=epsilon[i], delta=delta[i]) for i in range(2))
    assert prior[0] * (1.0 - 1e-14) <= low <= high * (1.0 + 1e-14)
    assert high <= 1.0


@settings(deadline=None)
@given(st.floats(1e-12, 0.999), st.floats(0.001, 0.99))
def test_epsilon_protect_inverts_the_bound(prior, advantage):
    epsilon = epsilon_protect(prior, advantage=advantage)
    assert advantage_at(prior, epsilon) == pytest.approx(advantage, rel=1e-9)


@pytest.mark.paper("worst_case", "Section 3.2")
@settings(deadline=None)
@given(st.floats(1e-9, 0.999), st.floats(0.0, 30.0))
def test_bits_leaked_inverts_the_bound(probability, epsilon):
    prior = 2.0 ** -bits_leaked(probability, epsilon=epsilon)
    assert success_bound(prior, epsilon=epsilon) == pytest.approx(probability, rel=1e-9)


def test_arrays_broadcast():
    assert success_bound([[0.1], [0.2]], epsilon=[1.0, 2.0, 3.0]).shape == (2, 3)
    assert epsilon_protect([[0.1], [0.2]], advantage=[0.1, 0.2]).shape == (2, 2)
    assert generalised_advantage([0.1, 0.2], 0.5).shape == (2,)
    assert bits_leaked([0.1, 0.2], epsilon=1.0).shape == (2,)


def best_posteriors(secrets, epsilon):
    """For each answer of randomized response: its best guess, and how probably it is right."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + secrets.size - 1.0)
    other = (1.0 - keep) / (secrets.size - 1.0)
    joint = secrets[:, np.newaxis] * np.where(np.eye(secrets.size), keep, other)
    posterior = joint / joint.sum(axis=0)
    return posterior.argmax(axis=0), posterior.max(axis=0)


@pytest.mark.paper("worst_case", "Proposition B.1")
def test_randomized_response_reaches_the_bound_within_its_range():
    secrets = np.array([0.4, 0.3, 0.2, 0.1])
    guesses, posterior = best_posteriors(secrets, np.log(5.0))
    np.testing.assert_array_equal(guesses, np.arange(4))
    np.testing.assert_allclose(posterior, success_bound(secrets, epsilon=np.log(5.0)), rtol=1e-14)


@pytest.mark.paper("worst_case", "Proposition B.1")
def test_randomized_response_misses_the_bound_outside_its_range():
    secrets = np.array([0.7, 0.2, 0.05, 0.05])
    guesses, posterior = best_posteriors(secrets, np.log(5.0))
    np.testing.assert_array_equal(guesses, [0, 1, 0, 0])
    bound = success_bound(secrets[guesses], epsilon=np.log(5.0))
    np.testing.assert_allclose(posterior[:2], bound[:2], rtol=1e-14)
    assert np.all(posterior[2:] < 0.8 * bound[2:])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: success_bound(1.2, epsilon=1.0), "prior is 1.2"),
        (lambda: success_bound([0.1, np.nan], epsilon=1.0), "prior is nan"),
        (lambda: success_bound(0.5, epsilon=-0.5), "epsilon is -0.5"),
        (lambda: success_bound(0.5, epsilon=1.0, delta=1.0), "delta is 1.0"),
        (lambda: success_bound("x", epsilon=1.0), "prior is 'x'"),
        (lambda: generalised_advantage(0.5, 1.5), "posterior is 1.5"),
        (lambda: epsilon_protect(0.5, advantage=-0.1), "advantage is -0.1"),
        (lambda: epsilon_protect(-1.0, advantage=0.1), "prior is -1.0"),
        (lambda: bits_leaked(1.01, epsilon=1.0), "probability is 1.01"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(InvalidInputError, match=name):
        call()

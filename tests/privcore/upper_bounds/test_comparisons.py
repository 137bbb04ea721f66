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

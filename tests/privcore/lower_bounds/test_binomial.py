"""Bounds of counts: limits as scipy has them, and what they come to at a prior."""

import math

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import beta, binomtest, norm

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian
from privcore.lower_bounds import epsilon_lower_from_rates
from privcore.lower_bounds.fdp import epsilon_lower_at_prior, success_rate_lower
from tests.simulate import assert_rate_at_most


def limits(found, trials):
    interval = binomtest(found, trials).proportion_ci(confidence_level=0.95, method="exact")
    return interval.low, interval.high


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(("hits", "alarms"), [(80, 10), (990, 300), (1_000, 0), (1, 0), (500, 500)])
def test_rates_agree_with_scipys_intervals(hits, alarms, delta):
    low, _ = limits(hits, 1_000)
    _, high = limits(alarms, 1_000)
    powers = [np.log((low - delta) / high)] if low > delta else []
    powers += [np.log((1.0 - high - delta) / (1.0 - low))]
    found = epsilon_lower_from_rates(1_000, hits, 1_000, alarms, delta=delta)
    assert found == pytest.approx(max(0.0, *powers), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.0])
def test_rates_cover_the_gaussian_mechanism_and_find_much_of_it(mu):
    """The best test of N(0, 1) against N(mu, 1) at a false positive rate of 1%, N = 300, seed 70.

    Each trial is a run of its own; 500 of each kind; delta 1e-3.
    """
    random, rate = np.random.default_rng(70), 0.01
    truth = Gaussian(mu).epsilon_at(delta=1e-3) if mu else 0.0
    power = norm.cdf(norm.ppf(rate) + mu)
    bounds = np.array(
        [
            epsilon_lower_from_rates(500, hits, 500, alarms, delta=1e-3)
            for hits, alarms in zip(
                random.binomial(500, power, 300), random.binomial(500, rate, 300), strict=True
            )
        ]
    )
    assert_rate_at_most(int(np.sum(bounds > truth)), 300, 0.05)
    if mu:
        assert bounds.mean() > 0.15 * truth


def test_bad_counts_are_named():
    with pytest.raises(InvalidInputError, match="true_positives is 11, but it lies in 0 to 10"):
        epsilon_lower_from_rates(10, 11, 10, 0)
    with pytest.raises(InvalidInputError, match="false_positives is -1, but it lies in 0 to 10"):
        epsilon_lower_from_rates(10, 1, 10, -1)
    with pytest.raises(InvalidInputError, match="significance is 0"):
        epsilon_lower_from_rates(10, 1, 10, 1, significance=0.5)
    with pytest.raises(InvalidInputError, match="delta is 1"):
        epsilon_lower_from_rates(10, 1, 10, 1, delta=1.0)
    assert epsilon_lower_from_rates(0, 0, 0, 0) == 0.0


@pytest.mark.parametrize("significance", [0.01, 0.05, 0.4])
def test_a_success_rates_limit_is_clopper_and_pearsons(significance):
    for guesses in (1, 2, 7, 1_000):
        for correct in {0, 1, min(2, guesses), guesses // 2, guesses - 1, guesses}:
            wanted = beta.ppf(significance, correct, guesses - correct + 1) if correct else 0.0
            found = success_rate_lower(guesses, correct, significance=significance)
            assert float(found) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("prior", [0.0, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_the_bound_at_a_prior_is_a_difference_of_log_odds(prior):
    """Right and wrong by turns, and nothing where the rate proved is no more than the prior."""
    for guesses, correct in ((100, 100), (100, 97), (100, 60), (100, 0), (1, 1)):
        rate = float(success_rate_lower(guesses, correct, significance=0.05))
        wanted = 0.0
        if rate > prior and prior < 1.0:
            wanted = float(logit(rate) - logit(prior))
        found = float(epsilon_lower_at_prior(guesses, correct, prior=prior, significance=0.05))
        assert found == pytest.approx(wanted, rel=1e-9)
    for odd in (-0.01, 1.01, math.nan):
        with pytest.raises(InvalidInputError, match="a probability lies in"):
            epsilon_lower_at_prior(10, 5, prior=odd, significance=0.05)

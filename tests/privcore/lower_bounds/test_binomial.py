import numpy as np
import pytest
from scipy.stats import binomtest, norm

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian
from privcore.lower_bounds import epsilon_lower_from_rates
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

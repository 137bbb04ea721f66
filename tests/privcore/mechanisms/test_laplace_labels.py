import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, laplace

from privcore.mechanisms import LaplaceOneHot
from tests.support.refusals import refused


@given(st.floats(0.01, 12.0), st.integers(2, 6))
def test_the_density_ratio_is_at_most_e_to_the_epsilon_everywhere(epsilon, classes):
    """The log-ratio is linear between the corners 0 and 1 of each entry and flat beyond them."""
    mechanism = LaplaceOneHot.from_epsilon(epsilon, classes)
    corners = np.array(list(itertools.product((-1.0, 0.0, 1.0, 2.0), repeat=classes)))[:4_096]
    densities = -np.abs(corners[:, None] - np.eye(classes)).sum(axis=2) / mechanism.scale
    ratios = densities[:, :, None] - densities[:, None, :]
    assert ratios.max() == pytest.approx(epsilon, rel=1e-9)


def test_noise_follows_the_distribution_and_a_30_percent_error_is_caught():
    """N = 100,000, seed 13, in 20 bins, judged at level 1e-6 both ways."""
    mechanism = LaplaceOneHot.from_epsilon(2.0, 2)
    noisy = mechanism.sample(np.ones(100_000, dtype=np.int64), np.random.default_rng(13))
    assert noisy.std(axis=0) == pytest.approx(2.0 * math.sqrt(2.0) / 2.0, rel=0.02)
    for column, centre in ((0, 0.0), (1, 1.0)):
        law = laplace(centre, mechanism.scale)
        edges = law.ppf(np.linspace(0.0, 1.0, 21))
        counts = np.histogram(noisy[:, column], edges)[0]
        assert chisquare(counts).pvalue > 1e-6
        wrong = np.diff(laplace(centre, 1.3 * mechanism.scale).cdf(edges)) * 100_000
        assert chisquare(counts, wrong).pvalue < 1e-6


def test_infinity_keeps_every_label():
    mechanism = LaplaceOneHot.from_epsilon(math.inf, 3)
    noisy = mechanism.sample(np.array([2, 0]), np.random.default_rng(0))
    np.testing.assert_array_equal(noisy, np.eye(3)[[2, 0]])


def test_bad_input_is_named():
    for epsilon in (0.0, -1.0, math.nan):
        refused("epsilon is", LaplaceOneHot.from_epsilon, epsilon, 2)
    refused("deviation is -1", LaplaceOneHot, -1.0, 2)
    mechanism = LaplaceOneHot(1.0, 2)
    refused("labels is 2", mechanism.sample, np.array([2]), np.random.default_rng(0))

"""Sums over one two-by-two table, against scipy's and against sums in many digits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nchypergeom_fisher

from privcore.lower_bounds.matched import log_wealth_of_tables
from tests.support.tiers import rest_slow

TIGHT = 1e-9


def normalizer_ratio(first, second, right, log_odds, gap):
    """Return the wealth of one table of which none of the first arm is right: the ratio alone."""
    counts = (np.array([number]) for number in (first, 0, second, right))
    return log_wealth_of_tables(*counts, np.zeros(1), np.array([log_odds]), np.array([gap]))[0, 0]


def exact(first, second, right, log_odds, gap):
    """Return log Z(log_odds) - log Z(log_odds + gap), every term in 60 digits."""
    with mpmath.workdps(60):
        low, high = max(0, right - second), min(first, right)
        weights = [
            mpmath.binomial(first, k) * mpmath.binomial(second, right - k)
            for k in range(low, high + 1)
        ]

        def normalizer(a):
            return mpmath.fsum(
                weight * mpmath.exp(mpmath.mpf(a) * k)
                for k, weight in enumerate(weights, start=low)
            )

        at = normalizer(log_odds)
        raised = normalizer(mpmath.mpf(log_odds) + mpmath.mpf(gap))
        return float(mpmath.log(at / raised))


def assert_tight_from_below(first, second, right, log_odds, gap, expected):
    found = normalizer_ratio(first, second, right, log_odds, gap)
    # A double cannot tell numbers apart that lie closer than this.
    assert found <= expected + 4e-16 * abs(expected)
    assert found >= expected - TIGHT * max(1.0, abs(expected))


@pytest.mark.slow
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.data(),
    st.one_of(st.sampled_from([0.0, 0.01, 28.0]), st.floats(0.0, 28.0)),
    st.one_of(st.sampled_from([1e-6, 6.0]), st.floats(1e-6, 6.0)),
)
@settings(max_examples=200, deadline=None)
def test_the_ratio_is_exact_and_never_above_the_exact_one(first, second, data, log_odds, gap):
    right = data.draw(st.integers(0, first + second))
    expected = exact(first, second, right, log_odds, gap)
    assert_tight_from_below(first, second, right, log_odds, gap, expected)


@pytest.mark.parametrize("log_odds", rest_slow([0.0, 0.7, 3.0, 28.0], always=2))
@pytest.mark.parametrize("gap", rest_slow([1e-6, 0.02, 1.0, 6.0], always=2))
@pytest.mark.parametrize(
    ("first", "second", "right"),
    [(2_000, 500, 600), (2_000, 500, 2_499), (3, 4_000, 7)],
)
def test_tables_of_thousands_are_as_exact(first, second, right, log_odds, gap):
    expected = exact(first, second, right, log_odds, gap)
    assert_tight_from_below(first, second, right, log_odds, gap, expected)


@pytest.mark.parametrize(("first", "second", "right"), [(30, 20, 25), (200, 50, 60), (5, 90, 40)])
@pytest.mark.parametrize("log_odds", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("gap", [0.1, 1.5])
def test_it_is_scipys_distribution(first, second, right, log_odds, gap):
    """1 over the mean of e^(gap k): the ratio of the normalizers, by Fisher's distribution."""
    law = nchypergeom_fisher(first + second, first, right, math.exp(log_odds))
    low, high = max(0, right - second), min(first, right)
    k = np.arange(low, high + 1)
    expected = -math.log(float(np.sum(law.pmf(k) * np.exp(gap * k))))
    found = normalizer_ratio(first, second, right, log_odds, gap)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [(0, 5, 3), (5, 0, 3), (0, 0, 0), (7, 4, 0), (7, 4, 11), (10**8, 10**8, 0)],
)
def test_tables_of_one_outcome_win_nothing(first, second, right):
    only = max(0, right - second)
    for log_odds in (0.0, 28.0):
        for gap in (1e-6, 6.0):
            assert normalizer_ratio(first, second, right, log_odds, gap) == -gap * only


@pytest.mark.parametrize("log_odds", [0.0, 1.0, 28.0])
@pytest.mark.parametrize("gap", [1e-4, 0.01])
def test_a_hundred_million_records_keep_nine_digits(log_odds, gap):
    """The mean of k lies between: log Z is convex, so its slopes at both ends enclose the ratio.

    The slopes are the means of k, found by the mode's equation (exact to 1 of 10^7).
    """
    first, second, right = 10**8, 2 * 10**7, 5 * 10**7

    def mode(a):
        odds = math.exp(a)
        quadratic = odds - 1.0
        linear = -((first + right) * odds + second - right)
        constant = first * right * odds
        if abs(quadratic) < 1e-12:
            return -constant / linear
        root = math.sqrt(linear * linear - 4.0 * quadratic * constant)
        return 2.0 * constant / (-linear + root)

    found = normalizer_ratio(first, second, right, log_odds, gap)
    least, most = gap * (mode(log_odds) - 2.0), gap * (mode(log_odds + gap) + 2.0)
    assert -most <= found <= -least
    # Two halves of the gap together are the whole, to rounding.
    halves = normalizer_ratio(first, second, right, log_odds, gap / 2.0) + normalizer_ratio(
        first, second, right, log_odds + gap / 2.0, gap / 2.0
    )
    assert found == pytest.approx(halves, rel=1e-9)


def test_the_wealth_of_tables_is_the_product_of_each_with_its_own_offset():
    first, first_right = np.array([10, 30, 0]), np.array([7, 12, 0])
    second, second_right = np.array([8, 0, 5]), np.array([2, 0, 4])
    offset = np.array([0.0, 0.3, 1.0])
    log_odds, gaps = np.array([0.0, 0.5]), np.array([0.1, 0.7, 2.0])
    found = log_wealth_of_tables(first, first_right, second, second_right, offset, log_odds, gaps)
    assert found.shape == (2, 3)
    for i, a in enumerate(log_odds):
        for j, gap in enumerate(gaps):
            one = gap * 7 + normalizer_ratio(10, 8, 9, a, gap)
            # A table of one arm alone and an empty arm win and lose nothing.
            other = gap * 12 + normalizer_ratio(30, 0, 12, a + 0.3, gap)
            assert other == pytest.approx(0.0, abs=1e-9)
            assert found[i, j] == pytest.approx(one, abs=1e-9)
    granted = log_wealth_of_tables(
        first[:1], first_right[:1], second[:1], second_right[:1], np.array([0.2]), log_odds, gaps
    )
    moved = log_wealth_of_tables(
        first[:1], first_right[:1], second[:1], second_right[:1], np.zeros(1), log_odds + 0.2, gaps
    )
    np.testing.assert_allclose(granted, moved, rtol=1e-12)
    assert np.all(granted < found)

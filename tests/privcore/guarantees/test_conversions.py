"""Conversions between kinds of guarantees, against mpmath, dp_accounting and each other."""

import itertools

import numpy as np
import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, ncdf

from privcore.guarantees.conversions import (
    add_remove_to_replace,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_renyi,
    pure_renyi,
    renyi_epsilon,
)
from tests.support.refusals import refused


def exact_gaussian_delta(mu, epsilon):
    with mp.workdps(80):
        mu, epsilon = mpf(mu), mpf(epsilon)
        low, high = -epsilon / mu - mu / 2, -epsilon / mu + mu / 2
        return ncdf(high) - mp.exp(epsilon) * ncdf(low)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-100, 1e-300])
def test_gaussian_conversions_against_mpmath(mu, delta):
    epsilon = float(gaussian_epsilon(mu, delta=delta))
    if epsilon == 0.0:
        assert exact_gaussian_delta(mu, 0.0) <= delta
        return
    assert float(exact_gaussian_delta(mu, epsilon) / mpf(delta)) == pytest.approx(1.0, rel=1e-7)
    assert gaussian_delta(mu, epsilon=epsilon) == pytest.approx(delta, rel=1e-7)
    assert gaussian_mu(epsilon, delta=delta) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.5), (0.0, 1.0 - 1e-6), (100.0, 0.99), (1e4, 1e-9), (1e-6, 0.9)]
)
def test_gaussian_mu_at_extremes(epsilon, delta):
    mu = float(gaussian_mu(epsilon, delta=delta))
    assert float(exact_gaussian_delta(mu, epsilon)) == pytest.approx(delta, rel=1e-10)


def test_gaussian_limits():
    assert gaussian_epsilon([0.0, 1.0, np.inf, 0.0], delta=[0.0, 0.0, 0.1, 0.1]).tolist() == [
        0.0,
        np.inf,
        np.inf,
        0.0,
    ]
    assert gaussian_delta([0.0, np.inf, 1.0], epsilon=[0.0, 1.0, np.inf]).tolist() == [0, 1, 0]
    assert gaussian_mu([1.0, np.inf], delta=[0.0, 0.1]).tolist() == [0.0, np.inf]
    assert gaussian_epsilon(0.01, delta=0.5) == 0.0
    assert isinstance(gaussian_epsilon(1.0, delta=1e-5), float)
    assert gaussian_epsilon([[1.0], [2.0]], delta=[1e-5, 1e-6]).shape == (2, 2)


@pytest.mark.slow
@settings(deadline=None)
@given(st.floats(1e-3, 20.0), st.floats(1e-3, 20.0), st.floats(1e-12, 0.4))
def test_gaussian_epsilon_is_monotone(mu, other, delta):
    low, high = sorted([mu, other])
    assert gaussian_epsilon(low, delta=delta) <= gaussian_epsilon(high, delta=delta) + 1e-12
    assert gaussian_epsilon(low, delta=delta) >= gaussian_epsilon(low, delta=2.0 * delta) - 1e-12


def test_pure_renyi_of_randomized_response():
    keep = np.exp(1.0) / (np.exp(1.0) + 1.0)
    for order in (1.01, 2.0, 17.0):
        terms = keep**order * (1 - keep) ** (1 - order) + (1 - keep) ** order * keep ** (1 - order)
        expected = np.log(terms) / (order - 1.0)
        assert pure_renyi(1.0, orders=order) == pytest.approx(expected, rel=1e-10)
    assert pure_renyi([0.0, 1.0, np.inf, 800.0], orders=[2.0, np.inf, 3.0, 9.0]).tolist() == [
        pytest.approx(0.0),
        1.0,
        np.inf,
        pytest.approx(800.0),
    ]


@settings(deadline=None)
@given(st.floats(0.0, 50.0), st.floats(1.01, 500.0), st.integers(2, 50))
def test_pure_renyi_obeys_its_bounds(epsilon, order, classes):
    divergence = pure_renyi(epsilon, orders=order, classes=classes)
    assert 0.0 <= divergence <= pure_renyi(epsilon, orders=order) + 1e-9
    assert divergence <= min(epsilon, order * epsilon**2 / 2.0) + 1e-9


def test_renyi_epsilon_is_that_of_dp_accounting():
    orders = np.concatenate([np.linspace(1.1, 63.0, 100), [256.0]])
    for mu in (0.1, 1.0, 4.0):
        curve = gaussian_renyi(mu, orders=orders)
        for delta in (1e-2, 1e-5, 1e-12):
            expected, _ = compute_epsilon(orders, curve, delta)
            found = renyi_epsilon(orders, curve, delta=delta)
            assert found == pytest.approx(expected, rel=1e-12)
            assert found >= gaussian_epsilon(mu, delta=delta)
    assert renyi_epsilon([2.0, np.inf], [9.0, 3.0], delta=0.0) == 3.0
    assert renyi_epsilon([2.0], [9.0], delta=0.0) == np.inf
    assert renyi_epsilon([2.0], [0.5], delta=[1e-3, 1e-5]).shape == (2,)


@pytest.mark.paper("renyi", "Section 2.2")
@pytest.mark.parametrize("seed", range(10))
def test_renyi_dp_gives_the_printed_epsilon_and_less(seed):
    # Two distributions over six outputs: their hockey-stick divergence is below delta at both.
    random = np.random.default_rng([2, seed])
    one, other = random.dirichlet(np.full(6, 0.7), 2) * (1 - 6e-6) + 1e-6
    for order, delta in itertools.product((1.3, 2.0, 10.0), (0.2, 1e-3)):
        divergence = max(
            0.0, float(np.log(np.sum(one**order * other ** (1.0 - order))) / (order - 1.0))
        )
        printed = divergence + np.log(1.0 / delta) / (order - 1.0)
        ours = float(renyi_epsilon([order], [divergence], delta=delta))
        assert ours <= printed
        for epsilon in (ours, printed):
            assert np.maximum(one - np.exp(epsilon) * other, 0.0).sum() <= delta + 1e-12
        # Post-processing: outputs put together have no larger divergence.
        joined, apart = (np.add.reduceat(each, [0, 2, 5]) for each in (one, other))
        after = np.log(np.sum(joined**order * apart ** (1.0 - order))) / (order - 1.0)
        assert after <= divergence + 1e-12


def test_add_remove_to_replace():
    assert add_remove_to_replace(1.0) == (2.0, 0.0)
    epsilon, delta = add_remove_to_replace([0.5, 1.0], delta=1e-5)
    np.testing.assert_allclose(epsilon, [1.0, 2.0])
    np.testing.assert_allclose(delta, 1e-5 * (1.0 + np.exp([0.5, 1.0])))
    assert add_remove_to_replace(np.inf, delta=1e-5) == (np.inf, 1.0)
    assert add_remove_to_replace(np.inf) == (np.inf, 0.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian_epsilon(-1.0, delta=0.1), "mu is -1.0"),
        (lambda: gaussian_epsilon(1.0, delta=1.0), "delta is 1.0"),
        (lambda: gaussian_delta(1.0, epsilon=np.nan), "epsilon is nan"),
        (lambda: gaussian_mu(-2.0, delta=0.1), "epsilon is -2.0"),
        (lambda: pure_renyi(1.0, orders=1.0), "orders is 1.0"),
        (lambda: pure_renyi(1.0, orders=2.0, classes=1), "classes is 1.0"),
        (lambda: renyi_epsilon([2.0], [1.0, 2.0], delta=0.1), "divergences is"),
        (lambda: add_remove_to_replace(1.0, delta=-0.1), "delta is -0.1"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)

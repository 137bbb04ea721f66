"""Leaked bits: closed forms, shape, and attacks that obey the bound."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.guarantees.conversions import gaussian_renyi, pure_renyi
from privcore.upper_bounds import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    least_leakage,
    renyi_leakage,
    renyi_success_bound,
)
from tests.support.refusals import refused

ORDERS = np.concatenate([np.linspace(1.01, 63.0, 500), [128.0, 1024.0, np.inf]])

curves = st.lists(
    st.tuples(st.floats(1.01, 100.0), st.floats(0.0, 200.0)), min_size=1, max_size=8
).map(lambda pairs: tuple(np.array(column) for column in zip(*pairs, strict=True)))


@pytest.mark.paper("renyi", "Appendix A.2, Lemmas 1 and 2")
@settings(deadline=None)
@given(curves, st.lists(st.floats(0.0, 200.0), min_size=3, max_size=3).map(sorted))
def test_leakage_rises_and_is_concave_and_the_posterior_falls(curve, bits):
    orders, divergences = curve
    low, mid, high = bits
    leaked = renyi_leakage(bits, orders=orders, divergences=divergences)
    assert np.all(np.diff(leaked) >= -1e-9)
    assert np.all(np.diff(leaked - bits) <= 1e-9)
    if high > low:
        share = (mid - low) / (high - low)
        assert leaked[1] >= (1.0 - share) * leaked[0] + share * leaked[2] - 1e-9


@pytest.mark.paper("renyi", "Corollary 1")
@settings(deadline=None)
@given(curves, st.floats(0.0, 200.0))
def test_never_more_than_by_the_usual_conversion(curve, bits):
    orders, divergences = curve
    leaked = renyi_leakage(bits, orders=orders, divergences=divergences)
    assert 0.0 <= leaked <= direct_leakage(bits, orders=orders, divergences=divergences) + 1e-9
    assert leaked <= bits


@pytest.mark.parametrize("bits", [1.0, 5.0, 20.0, 64.0, 1_000.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_gaussian_in_closed_form(bits, mu):
    # order d = mu^2/2: the best order is sqrt(b / rho) and leaks 2 sqrt(b rho) - rho nats.
    rho, secret = mu**2 / 2.0, bits * math.log(2.0)
    expected = bits if secret <= rho else (2.0 * math.sqrt(secret * rho) - rho) / math.log(2.0)
    found = curve_leakage(bits, divergence=lambda order: order * rho, least_order=1.0 + 1e-9)
    assert found == pytest.approx(expected, rel=1e-7)
    listed = renyi_leakage(bits, orders=ORDERS, divergences=gaussian_renyi(mu, orders=ORDERS))
    assert found <= listed + 1e-9
    assert listed == pytest.approx(expected, rel=2e-2)


def test_continuous_search_agrees_with_a_dense_grid_and_survives_infinite_orders():
    def divergence(order):
        return float(pure_renyi(2.0, orders=order)) if order < 40.0 else math.inf

    orders = 1.0 / np.linspace(1.0 / 39.99, 1.0 / 1.01, 20_000)
    dense = renyi_leakage([1, 3, 8], orders=orders, divergences=pure_renyi(2.0, orders=orders))
    found = curve_leakage([1, 3, 8], divergence=divergence)
    np.testing.assert_allclose(found, dense, rtol=1e-4)
    assert np.all(found <= dense + 1e-5)


@pytest.mark.paper("renyi", "Theorem 1")
@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 10**6),
    st.lists(st.floats(1.05, 60.0), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_both_sides_of_theorem_1_on_any_two_distributions(seed, orders, event):
    # Any p0 and p1 of any event under two distributions with these divergences, both ways.
    generator = np.random.default_rng(seed)
    with_secret, without = generator.dirichlet(np.full(6, 0.5), 2) * (1 - 6e-6) + 1e-6
    orders = np.unique(orders)
    both = [
        [np.log(np.sum(p**a * q ** (1.0 - a))) / (a - 1.0) for a in orders]
        for p, q in ((with_secret, without), (without, with_secret))
    ]
    divergences = np.maximum(np.max(both, axis=0), 0.0)
    p0, p1 = (float(each[event].sum()) for each in (without, with_secret))
    if not 0.0 < p0 <= 1.0:
        return
    bits = max(0.0, -np.log2(p0))
    moved = np.log2(p1 / p0)
    assert least_leakage(bits, orders=orders, divergences=divergences) <= moved + 1e-9
    assert moved <= renyi_leakage(bits, orders=orders, divergences=divergences) + 1e-9


@pytest.mark.paper("renyi", "Equation (1)")
@pytest.mark.parametrize("seed", range(10))
def test_equation_1_holds_for_every_event_and_order(seed):
    # All 64 events of two distributions over six outputs, both ways.
    generator = np.random.default_rng([1, seed])
    one, other = generator.dirichlet(np.full(6, 0.5), 2) * (1 - 6e-6) + 1e-6
    events = np.array(list(itertools.product((0.0, 1.0), repeat=6)))
    for order in (1.05, 2.0, 7.0, 40.0):
        ways = [
            np.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0)
            for p, q in ((one, other), (other, one))
        ]
        divergence = max(*ways, 0.0)
        p0, p1 = np.minimum(events @ one, 1.0), events @ other
        upper = renyi_success_bound(p0, orders=[order], divergences=[divergence])
        assert np.all(p1 <= upper + 1e-12)
        share = (order - 1.0) / order
        np.testing.assert_allclose(
            upper, np.minimum((np.exp(divergence) * p0) ** share, 1.0), atol=1e-12
        )
        assert np.all(np.exp(-divergence) * p0 ** (1.0 / share) <= p1 + 1e-12)


@pytest.mark.paper("renyi", "Theorem 1")
def test_the_lower_side_is_minus_the_usual_conversion():
    curve = {"orders": [2.0, 4.0, np.inf], "divergences": [0.5, 1.0, 2.5]}
    bits = np.array([1.0, 20.0, 60.0])
    lower = least_leakage(bits, **curve)
    # The usual conversion is cut at the secret's bits, above which nothing leaks; a loss is not.
    expected = np.min(
        [0.5 / np.log(2.0) + bits, 1.0 / np.log(2.0) + bits / 3.0, np.full(3, 2.5 / np.log(2.0))],
        axis=0,
    )
    np.testing.assert_allclose(lower, -expected)
    unknown = least_leakage(7.0, orders=[2.0], divergences=[np.inf])
    assert unknown == -np.inf


def test_comparisons_in_closed_form():
    one = {"orders": [4.0], "divergences": [1.0]}
    assert direct_leakage(20.0, **one) == pytest.approx(1.0 / math.log(2.0) + 20.0 / 3.0)
    improved = (1.0 + math.log(0.75) - math.log(4.0) / 3.0) / math.log(2.0) + 20.0 / 3.0
    assert improved_conversion_leakage(20.0, **one) == pytest.approx(improved)


def test_limits():
    no_guarantee = {"orders": [2.0, 4.0], "divergences": [np.inf, np.inf]}
    assert renyi_leakage(7.0, **no_guarantee) == 7.0
    assert renyi_success_bound(0.1, **no_guarantee) == pytest.approx(1.0)
    nothing = {"orders": [np.inf], "divergences": [0.0]}
    assert renyi_leakage(7.0, **nothing) == 0.0
    assert renyi_success_bound([0.0, 0.25, 1.0], **nothing).tolist() == [0.0, 0.25, 1.0]
    pure = renyi_success_bound(0.001, orders=[np.inf], divergences=[2.0])
    assert pure == pytest.approx(0.001 * math.exp(2.0))
    assert direct_leakage(7.0, orders=[np.inf], divergences=[math.log(2.0)]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: renyi_leakage(-1.0, orders=[2.0], divergences=[1.0]), "secret_bits is -1.0"),
        (lambda: renyi_leakage(1.0, orders=[1.0], divergences=[1.0]), "orders is 1.0"),
        (lambda: renyi_leakage(1.0, orders=[2.0], divergences=[-1.0]), "divergences is -1.0"),
        (lambda: renyi_leakage(1.0, orders=[2.0, 3.0], divergences=[1.0]), "divergences is"),
        (lambda: renyi_leakage(1.0, orders=[], divergences=[]), "divergences is"),
        (lambda: renyi_success_bound(2.0, orders=[2.0], divergences=[1.0]), "prior is 2.0"),
        (lambda: curve_leakage(1.0, divergence=float, least_order=0.5), "orders is 0.5"),
        (
            lambda: curve_leakage(1.0, divergence=float, least_order=5.0, largest_order=2.0),
            "largest_order is 2.0",
        ),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)

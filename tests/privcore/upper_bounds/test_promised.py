"""One guarantee, asked by every theorem: the least applies, and each in its own relation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.guarantees import (
    Composition,
    DpSgd,
    GaussianMechanism,
    LaplaceOneHotAccount,
    Neighbors,
    RandomizedResponseAccount,
    Relation,
)
from privcore.upper_bounds import Promised, rip_eta, success_bound
from tests.support.refusals import refused

ADD_REMOVE = Relation.ADD_REMOVE
BITS = np.array([1.0, 10.0, 20.0, 40.0, 64.0])
TRAINING = DpSgd(1.0, 0.01, 500)


@settings(deadline=None)
@given(st.floats(0.0, 30.0), st.floats(0.0, 0.9), st.floats(0.0, 1.0))
def test_success_is_the_least_bound_and_never_below_a_blind_guess(epsilon, delta, prior):
    promised = Promised(epsilon, delta)
    found = promised.success(prior)
    assert found == min(float(bound) for bound in promised.success_bounds(prior).values())
    assert prior * (1.0 - 1e-12) <= found <= 1.0
    assert found <= success_bound(prior, epsilon=epsilon, delta=delta)


def test_pure_guarantees_leak_what_the_closed_form_says():
    found = Promised(4.0).leaked_bits(BITS)
    expected = np.log2(success_bound(2.0**-BITS, epsilon=4.0)) + BITS
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.all(np.diff(found) >= 0.0)
    assert np.all(found < 4.0 / np.log(2.0) + 1e-9)


def test_limits():
    np.testing.assert_allclose(Promised(0.0).leaked_bits(BITS), 0.0, atol=1e-9)
    np.testing.assert_array_equal(Promised(np.inf).leaked_bits(BITS), BITS)
    assert Promised(0.0).membership_accuracy() == 0.5
    assert Promised(np.inf).membership_accuracy() == 1.0
    assert Promised(1.0).leaked_bits(0.0) == 0.0
    assert Promised(50.0, 0.5, ADD_REMOVE).membership_accuracy() == 1.0


@pytest.mark.slow
def test_a_renyi_curve_promises_more_than_its_epsilon_and_delta():
    epsilon = TRAINING.epsilon(1e-5)
    known = Promised(epsilon, 1e-5, ADD_REMOVE, TRAINING).leaked_bits(BITS)
    unknown = Promised(epsilon, 1e-5, ADD_REMOVE).leaked_bits(BITS)
    assert np.all(known <= unknown)
    assert known[-1] < 0.5 * unknown[-1]


@pytest.mark.parametrize(
    "mechanism",
    [RandomizedResponseAccount(2.0, 2), LaplaceOneHotAccount(1.5), GaussianMechanism(1.0)],
)
def test_every_mechanism_with_a_curve_is_asked_for_it(mechanism):
    promised = Promised(mechanism.epsilon(1e-6), 1e-6, Relation.REPLACE, mechanism)
    assert "renyi" in promised.success_bounds(0.5)


def test_without_a_curve_epsilon_and_delta_stand_in():
    replaced = DpSgd(1.0, 0.01, 500, neighbors=Neighbors.REPLACE)
    for mechanism in (replaced, Composition((replaced,))):
        promised = Promised(2.0, 1e-5, Relation.REPLACE, mechanism)
        assert promised.leaked_bits(20.0) == Promised(2.0, 1e-5).leaked_bits(20.0)


def test_adding_or_removing_is_half_of_replacing():
    both = Promised(1.0, 1e-6, ADD_REMOVE)
    assert both.replacing == pytest.approx((2.0, (1.0 + np.e) * 1e-6))
    assert both.membership_accuracy() == Promised(*both.replacing).membership_accuracy()
    assert both.correct_guesses(100, records=100).limit() == (
        Promised(*both.replacing).correct_guesses(100, records=100).limit()
    )
    # For an improbable secret, taking it out is the better comparison.
    assert both.success(1e-3) < Promised(*both.replacing).success(1e-3)


def test_rip_eta_with_delta_is_half_the_largest_total_variation():
    # The worst mechanism at (epsilon, delta): revealed with probability delta, else answered.
    for epsilon, delta in ((0.0, 0.1), (1.0, 0.01), (5.0, 0.5)):
        kept = (1.0 - delta) * np.exp(epsilon) / (1.0 + np.exp(epsilon))
        changed = (1.0 - delta) / (1.0 + np.exp(epsilon))
        total = 0.5 * (2.0 * delta + 2.0 * (kept - changed))
        assert rip_eta(epsilon, delta=delta) == pytest.approx(total / 2.0, rel=1e-12)
    refused(r"delta is 1\.0", rip_eta, 1.0, delta=1.0)


def test_a_shift_between_labels_and_proxy_costs_as_delta_does():
    promised = Promised(1.0, 1e-4)
    shifted = promised.correct_bits(500, records=1_000, shift=0.01)
    assert shifted.failures == pytest.approx(1_000 * (0.01 + 1e-4))
    assert shifted.limit() > promised.correct_bits(500, records=1_000).limit()
    assert promised.correct_bits(500, records=1_000, shift=1.0).limit() == 500


@pytest.mark.paper("observational", "Definition 1")
def test_simulating_promises_less_than_replacing_and_more_than_twice_it():
    simulated, replaced = Promised(1.0, 1e-6, Relation.SIMULATE), Promised(1.0, 1e-6)
    assert simulated.replacing == pytest.approx((2.0, (1.0 + np.e) * 1e-6))
    assert simulated.simulating == replaced.simulating == (1.0, 1e-6)
    # A named label: between replacement at epsilon and at twice that.
    for prior in (0.02, 0.5, 0.9):
        bounds = simulated.success_bounds(prior)
        assert simulated.success(prior) == bounds["simulation"]
        assert replaced.success(prior) < bounds["simulation"] < bounds["any_attack"]
    # A bit of the game: the imputed run is what the guarantee compares with.
    games = [promised.correct_bits(500, records=1_000) for promised in (simulated, replaced)]
    assert games[0].limit() == games[1].limit()
    named = [promised.correct_guesses(500, records=1_000) for promised in (simulated, replaced)]
    assert named[0].limit() > named[1].limit()


@settings(deadline=None, max_examples=30)
@given(st.floats(0.0, 8.0), st.floats(0.0, 8.0), st.integers(0, 2_000))
def test_more_epsilon_never_promises_more(one, other, guesses):
    low, high = sorted([one, other])
    limits = [Promised(e).correct_guesses(guesses, records=2_000).limit() for e in (low, high)]
    assert limits == sorted(limits)
    assert np.all(Promised(low).leaked_bits(BITS) <= Promised(high).leaked_bits(BITS) + 1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Promised(-1.0), "epsilon is -1.0"),
        (lambda: Promised(np.nan), "epsilon is nan"),
        (lambda: Promised(1.0, 1.0), "delta is 1.0"),
        (lambda: Promised(1.0, 0.0, Relation.REPLACE, TRAINING), "neighbors is 'replace'"),
        (lambda: Promised(1.0).success(1.5), "prior is 1.5"),
        (lambda: Promised(1.0).leaked_bits(-1.0), "secret_bits is -1.0"),
        (lambda: Promised(1.0).leaked_bits(1e4), "secret_bits is 10000.0"),
        (lambda: Promised(1.0).correct_guesses(3, records=2), "records is 2"),
        (lambda: Promised(1.0).correct_bits(3, records=3, shift=2.0), "shift is 2.0"),
    ],
)
def test_bad_input_is_named(call, name):
    refused(name, call)

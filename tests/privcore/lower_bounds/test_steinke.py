import csv
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import best_epsilon, epsilon_lower
from privcore.lower_bounds.fdp import Steinke, _pvalue

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "epsilon_lower.csv"
ROWS = [row for row in csv.DictReader(GOLDEN.open()) if row["family"] == "steinke"]


def test_every_golden_row_is_reached_to_1e_6():
    assert len(ROWS) == 132
    for row in ROWS:
        found = epsilon_lower(
            int(row["records"]),
            int(row["guesses"]),
            int(row["correct"]),
            family=Steinke(),
            delta=float(row["delta"]),
            significance=float(row["significance"]),
            shift=float(row["shift"]),
        )
        assert found == pytest.approx(float(row["epsilon"]), abs=1e-6), row


def naive_pvalue(records, guesses, correct, epsilon, delta):
    """The theorem as printed."""
    rate = expit(epsilon)
    beta = binom.sf(correct - 1, guesses, rate)
    i = np.arange(1, correct + 1)
    alpha = np.max((binom.sf(correct - i - 1, guesses, rate) - beta) / i)
    return beta + 2.0 * records * delta * alpha


@pytest.mark.slow
@given(st.integers(2, 3_000), st.data(), st.sampled_from([0.0, 1e-9, 1e-6, 1e-4]))
@settings(max_examples=300, deadline=None)
def test_the_pvalue_agrees_with_the_naive_twin(guesses, data, delta):
    correct = data.draw(st.integers(guesses // 2 + 1, guesses))
    largest = np.log(correct / (guesses - correct)) if correct < guesses else 8.0
    epsilon = data.draw(st.floats(0.0, float(largest)))
    records = data.draw(st.integers(guesses, 10_000))
    ours = _pvalue(records, guesses, correct, epsilon, delta)
    # The twin takes differences of tails, so it is good to 1e-15 at best before it is multiplied.
    tolerance = 1e-14 * (1.0 + 2.0 * records * delta)
    assert ours == pytest.approx(
        naive_pvalue(records, guesses, correct, epsilon, delta), rel=1e-9, abs=tolerance
    )


def test_delta_counts_even_where_the_tail_itself_is_no_double():
    """At 1,100 of 1,100 and epsilon 0 the tail is 2^-1100; the rest comes from the middle."""
    value = _pvalue(2_000, 1_100, 1_100, 0.0, 1e-5)
    assert value == pytest.approx(naive_pvalue(2_000, 1_100, 1_100, 0.0, 1e-5), rel=1e-9)
    assert value > 1e-5


def test_best_epsilon_is_the_largest_of_all_fractions():
    guesses, correct = [[10, 100], [10, 100]], [[10, 60], [5, 90]]
    best = best_epsilon(1_000, guesses, correct, family=Steinke(), delta=1e-5)
    each = [
        max(
            epsilon_lower(1_000, made, right, family=Steinke(), delta=1e-5)
            for made, right in zip(*row, strict=True)
        )
        for row in zip(guesses, correct, strict=True)
    ]
    np.testing.assert_array_equal(best, each)


def test_nothing_guessed_and_half_right_prove_nothing():
    for guesses, correct in [(0, 0), (1, 1), (100, 50)]:
        assert epsilon_lower(100, guesses, correct, family=Steinke(), delta=0.0) == 0.0


def test_a_shift_is_refused():
    with pytest.raises(InvalidInputError, match=r"shift is 0\.1, but Steinke's theorem"):
        epsilon_lower(100, 10, 10, family=Steinke(), delta=0.0, shift=0.1)


def test_without_a_shift_nothing_is_refused():
    bound = Steinke().epsilon_lower(100, 10, 10, delta=0.0, significance=0.05)
    assert bound == pytest.approx(-np.log(0.05 ** (-1 / 10) - 1.0), abs=1e-9)

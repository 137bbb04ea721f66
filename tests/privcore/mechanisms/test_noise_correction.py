import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    RandomizedResponse,
    correct_probabilities,
    disjoint_parts,
    measure_prior,
    uncorrected_inverse,
)


@given(st.floats(0.1, 8.0), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_inverse_undoes_the_flips_exactly(epsilon, classes, seed):
    true = np.random.default_rng(seed).dirichlet(np.ones(classes), size=5)
    flip = RandomizedResponse(epsilon, classes).distribution()
    np.testing.assert_allclose(correct_probabilities(true @ flip, flip), true, atol=1e-9)


def test_shares_are_unbiased_where_nothing_is_clipped():
    """2,000 measurements of 500 labels, seed 5: the mean is within 5 standard errors."""
    random = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2], [250, 150, 100])
    mechanism = RandomizedResponse(1.5, 3)
    flip = mechanism.distribution()
    shares = np.array(
        [np.bincount(mechanism.sample(labels, random), minlength=3) / 500 for _ in range(2_000)]
    )
    estimates = uncorrected_inverse(shares, flip)
    error = estimates.std(axis=0) / math.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(axis=0) - (0.5, 0.3, 0.2)) < 5.0 * error)
    # The uncorrected shares are biased by far more, so the check can fail.
    assert np.any(np.abs(shares.mean(axis=0) - (0.5, 0.3, 0.2)) > 20.0 * error)


def test_what_lies_outside_is_clipped_and_renormalised():
    flip = RandomizedResponse(1.0, 2).distribution()
    np.testing.assert_allclose(correct_probabilities(np.array([[0.9, 0.1]]), flip), [[1.0, 0.0]])


def test_a_floor_keeps_every_label_possible():
    flip = RandomizedResponse(1.0, 2).distribution()
    corrected = correct_probabilities(np.array([[0.9, 0.1], [0.5, 0.5]]), flip, floor=0.02)
    np.testing.assert_allclose(corrected, [[1.0 / 1.02, 0.02 / 1.02], [0.5, 0.5]])
    for wrong in (-0.1, 0.5, float("nan")):
        with pytest.raises(InvalidInputError, match="floor is"):
            correct_probabilities(np.array([[0.5, 0.5]]), flip, floor=wrong)


def test_a_measured_prior_is_near_the_truth():
    labels = np.repeat([0, 1], [97_000, 3_000])
    prior = measure_prior(labels, RandomizedResponse(0.5, 2), np.random.default_rng(11))
    assert prior == pytest.approx([0.97, 0.03], abs=0.02)
    exact = measure_prior(labels, RandomizedResponse(math.inf, 2), np.random.default_rng(11))
    assert exact == pytest.approx([0.97, 0.03])


def test_parts_are_disjoint_and_hold_every_record_once():
    records = np.array([f"record {i}" for i in range(1_003)])
    parts = disjoint_parts(1_003, 100, np.random.default_rng(1))
    held = [set(records[part]) for part in parts]
    assert sum(len(part) for part in held) == len(set.union(*held)) == 1_003
    assert {len(part) for part in held} == {10, 11}


def test_bad_input_is_named():
    random = np.random.default_rng(0)
    with pytest.raises(InvalidInputError, match="parts is 4, but 3 records"):
        disjoint_parts(3, 4, random)
    with pytest.raises(InvalidInputError, match="parts is 0"):
        disjoint_parts(3, 0, random)
    with pytest.raises(InvalidInputError, match="cannot be corrected"):
        correct_probabilities(np.array([[0.5, 0.5]]), np.full((2, 2), 0.5))
    with pytest.raises(InvalidInputError, match=r"prior is 0\.9"):
        correct_probabilities(np.array([[0.5, 0.4]]), np.eye(2))
    with pytest.raises(InvalidInputError, match="at least 1 label"):
        measure_prior(np.array([], dtype=np.int64), RandomizedResponse(1.0, 2), random)

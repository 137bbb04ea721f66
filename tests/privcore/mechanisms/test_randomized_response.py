import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from privcore.exceptions import InvalidInputError
from privcore.guarantees import PureDP
from privcore.mechanisms import RandomizedResponse


@given(st.floats(0.01, 12.0), st.integers(2, 6))
def test_the_ratio_over_any_two_labels_is_at_most_e_to_the_epsilon(epsilon, classes):
    matrix = RandomizedResponse(epsilon, classes).distribution()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    worst = (matrix.max(axis=0) / matrix.min(axis=0)).max()
    assert worst == pytest.approx(math.exp(epsilon), rel=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
def test_samples_follow_the_distribution_and_a_30_percent_error_is_caught(classes):
    """N = 50,000 per label, seed 31, judged at level 1e-6 both ways."""
    mechanism = RandomizedResponse(1.0, classes)
    wrong = RandomizedResponse(1.3, classes).distribution()
    for label in range(classes):
        answers = mechanism.sample(np.full(50_000, label), np.random.default_rng(31 + label))
        counts = np.bincount(answers, minlength=classes)
        assert chisquare(counts, mechanism.distribution()[label] * 50_000).pvalue > 1e-6
        assert chisquare(counts, wrong[label] * 50_000).pvalue < 1e-6


def test_extremes_and_guarantee():
    labels = np.arange(3)
    assert RandomizedResponse(2.0, 3).guarantee == PureDP(2.0)
    kept = RandomizedResponse(math.inf, 3).sample(labels, np.random.default_rng(0))
    assert np.array_equal(kept, labels)


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match="epsilon is 0"):
        RandomizedResponse(0.0, 2)
    with pytest.raises(InvalidInputError, match="epsilon is nan"):
        RandomizedResponse(math.nan, 2)
    with pytest.raises(InvalidInputError, match="classes is 1"):
        RandomizedResponse(1.0, 1)
    with pytest.raises(InvalidInputError, match="labels is 2, but a label is a class from 0 to 1"):
        RandomizedResponse(1.0, 2).sample(np.array([0, 2]), np.random.default_rng(0))

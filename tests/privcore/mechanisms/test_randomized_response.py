import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    RandomizedResponse,
    RandomizedResponseWithPrior,
    correct_probabilities,
    disjoint_parts,
    measure_prior,
)
from tests.support.refusals import refused


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
    kept = RandomizedResponse(math.inf, 3).sample(labels, np.random.default_rng(0))
    assert np.array_equal(kept, labels)


def test_bad_input_is_named():
    refused("epsilon is 0", RandomizedResponse, 0.0, 2)
    refused("epsilon is nan", RandomizedResponse, math.nan, 2)
    refused("classes is 1", RandomizedResponse, 1.0, 1)
    with pytest.raises(InvalidInputError, match="labels is 2, but a label is a class from 0 to 1"):
        RandomizedResponse(1.0, 2).sample(np.array([0, 2]), np.random.default_rng(0))


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
    estimates = correct_probabilities(shares, flip)
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
        refused("floor is", correct_probabilities, np.array([[0.5, 0.5]]), flip, floor=wrong)


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


def test_bad_input_of_noise_correction_is_named():
    random = np.random.default_rng(0)
    refused("parts is 4, but 3 records", disjoint_parts, 3, 4, random)
    refused("parts is 0", disjoint_parts, 3, 0, random)
    with pytest.raises(InvalidInputError, match="cannot be corrected"):
        correct_probabilities(np.array([[0.5, 0.5]]), np.full((2, 2), 0.5))
    refused(r"prior is 0\.9", correct_probabilities, np.array([[0.5, 0.4]]), np.eye(2))
    with pytest.raises(InvalidInputError, match="at least 1 label"):
        measure_prior(np.array([], dtype=np.int64), RandomizedResponse(1.0, 2), random)


EPSILONS = st.floats(0.01, 12.0)


@st.composite
def priors(draw):
    classes = draw(st.integers(2, 6))
    parts = draw(st.lists(st.integers(0, 20), min_size=classes, max_size=classes).filter(sum))
    return np.array(parts) / sum(parts)


def naive(epsilon, prior):
    """The algorithm of Ghazi et al. as it is printed."""
    classes = len(prior)
    order = sorted(range(classes), key=lambda label: (-prior[label], label))
    scores = [
        math.exp(epsilon)
        / (math.exp(epsilon) + k - 1)
        * math.fsum(prior[order[i]] for i in range(k))
        for k in range(1, classes + 1)
    ]
    top = next(k for k in range(1, classes + 1) if scores[k - 1] >= max(scores) - 1e-12)
    matrix = np.zeros((classes, classes))
    for label, answer in itertools.product(range(classes), order[:top]):
        kept = math.exp(epsilon) if answer == label else 1.0
        matrix[label, answer] = (
            kept / (math.exp(epsilon) + top - 1) if label in order[:top] else 1.0 / top
        )
    return matrix


@given(EPSILONS, priors())
def test_with_a_prior_the_ratio_over_two_labels_is_at_most_e_to_the_epsilon(epsilon, prior):
    matrix = RandomizedResponseWithPrior(epsilon, len(prior)).distribution(prior)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    for one, two in itertools.permutations(range(len(prior)), 2):
        assert np.all(matrix[one] <= math.exp(epsilon) * matrix[two] * (1.0 + 1e-9))


@given(EPSILONS, priors())
def test_the_distribution_is_that_of_the_paper(epsilon, prior):
    ours = RandomizedResponseWithPrior(epsilon, len(prior)).distribution(prior)
    np.testing.assert_allclose(ours, naive(epsilon, prior), atol=1e-9)


@pytest.mark.parametrize(
    ("prior", "top"), [((0.97, 0.03), 1), ((0.4, 0.35, 0.2, 0.05), 2), ((0.2,) * 5, 5)]
)
def test_with_a_prior_samples_follow_the_distribution_and_an_error_is_caught(prior, top):
    """N = 50,000 per label, seed 7, judged at level 1e-6 both ways; with k = 1 all are the same."""
    prior = np.array(prior)
    mechanism = RandomizedResponseWithPrior(1.0, len(prior))
    assert mechanism.top(prior[None]).tolist() == [top]
    for label in range(len(prior)):
        random = np.random.default_rng([7, label])
        answers = mechanism.sample(np.full(50_000, label), np.tile(prior, (50_000, 1)), random)
        counts = np.bincount(answers, minlength=len(prior))
        assert not counts[top:].any()
        if top == 1:
            continue
        expected = mechanism.distribution(prior)[label, :top]
        assert chisquare(counts[:top], expected * 50_000).pvalue > 1e-6
        wrong = expected * np.where(np.arange(top) == label % top, 1.3, 1.0)
        assert chisquare(counts[:top], wrong / wrong.sum() * 50_000).pvalue < 1e-6


def test_every_record_has_its_own_prior():
    """Records with k = 1, 2 and 3 in one call, each answered within its own top."""
    prior = np.array([[0.98, 0.01, 0.01], [0.02, 0.49, 0.49], [1 / 3, 1 / 3, 1 / 3]])
    mechanism = RandomizedResponseWithPrior(1.0, 3)
    np.testing.assert_array_equal(mechanism.top(prior), [1, 2, 3])
    many = np.repeat(prior, 4_000, axis=0)
    random = np.random.default_rng(3)
    labels = random.integers(0, 3, len(many))
    answers = mechanism.sample(labels, many, random).reshape(3, -1)
    assert set(answers[0]) == {0}
    assert set(answers[1]) == {1, 2}
    assert set(answers[2]) == {0, 1, 2}


def test_infinity_keeps_every_label_even_an_impossible_one():
    prior = np.array([[1.0, 0.0, 0.0]])
    mechanism = RandomizedResponseWithPrior(math.inf, 3)
    answers = mechanism.sample(np.array([2]), prior, np.random.default_rng(0))
    assert answers.tolist() == [2]
    assert np.array_equal(mechanism.distribution(prior[0]), np.eye(3))


def test_bad_input_of_response_with_prior_is_named():
    random = np.random.default_rng(0)
    for epsilon in (0.0, -1.0, math.nan):
        refused("epsilon is", RandomizedResponseWithPrior, epsilon, 2)
    mechanism = RandomizedResponseWithPrior(1.0, 2)
    even = np.full((2, 2), 0.5)
    with pytest.raises(InvalidInputError, match="labels is 2, but a label is a class from 0 to 1"):
        mechanism.sample(np.array([0, 2]), even, random)
    refused("labels is -1", mechanism.sample, np.array([-1, 0]), even, random)
    with pytest.raises(InvalidInputError, match=r"prior is 0\.8, but a record's prior sums to 1"):
        mechanism.sample(np.array([0, 1]), np.array([[0.5, 0.5], [0.5, 0.3]]), random)
    refused(r"prior is \(1, 2\)", mechanism.sample, np.array([0, 1]), even[:1], random)
    refused(r"prior is -0\.5", mechanism.top, np.array([[1.5, -0.5]]))
    refused(r"prior is nan", mechanism.top, np.array([[math.nan, 0.5]]))

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from privcore.attacks.query_adversary import (
    NOISY,
    ONE,
    QUIET,
    ZERO,
    Disagreement,
    NotZeroOrOne,
    VarianceAbove,
    variance_statistic,
)
from privcore.exceptions import InvalidInputError
from tests.support.tiers import tiered


def test_answers_other_than_0_or_1_are_noisy():
    answers = np.array([[0.0, 1.0, 2.0, 0.5, -1e10, 1e-12]])
    signs = NotZeroOrOne().decide(answers, 1e-10)
    assert signs.tolist() == [ZERO, ONE, NOISY, NOISY, NOISY, NOISY]


def test_answers_that_disagree_are_noisy():
    answers = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    assert Disagreement(3).decide(answers, 1.0).tolist() == [ZERO, ONE, NOISY, NOISY]


def test_fifteen_repetitions_fail_as_often_as_two_in_two_to_the_fifteenth():
    """N = 2,000,000 noisy queries, seed 11, judged at level 1e-6: 6.1e-5, not 1e-10."""
    missed, queries = 0, 2_000_000
    random = np.random.default_rng(11)
    for _ in range(20):
        coins = random.integers(0, 2, (15, queries // 20)).astype(np.float64)
        missed += int(np.sum(Disagreement(15).decide(coins, 1e-10) != NOISY))
    assert binomtest(missed, queries, 2.0**-14).pvalue > 1e-6
    assert binomtest(missed, queries, 1.3 * 2.0**-14).pvalue < 1e-2
    assert missed > 0


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("epsilon", [1e-10, 3.0])
def test_lemma_5_1_the_statistic_has_mean_twice_alpha_squared_at_any_epsilon(scale, epsilon):
    """N = 200,000 statistics of 10 answers, seed 12; within 5 standard errors."""
    answers = 7.0 + np.random.default_rng(12).laplace(0.0, scale / epsilon, (10, 200_000))
    statistics = variance_statistic(answers, epsilon)
    error = statistics.std() / math.sqrt(statistics.size)
    # At epsilon 1e-10 the private value 7 is lost in the noise; at 3 it must cancel.
    assert statistics.mean() == pytest.approx(2.0 * scale**2, abs=5 * error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "published"),
    tiered([(10, 0.8030245), (100, 0.9882165), (1000, 1.0)], always=2, slow=1),
)
def test_table_1_accuracy_of_the_variance_rule(m, published):
    """N = 100,000 (half of each), seed 13, against the published 2,000,000: 5 standard errors."""
    half = 50_000
    random = np.random.default_rng(13)
    right = 0
    for scale, sign in ((1.0, QUIET), (2.0, NOISY)):
        for _ in range(10):
            answers = random.laplace(0.0, scale * m / 1e-3, (m, half // 10))
            right += int(np.sum(VarianceAbove(m).decide(answers, 1e-3 / m) == sign))
    error = math.sqrt(max(published * (1 - published), 1e-5) / (2 * half))
    assert right / (2 * half) == pytest.approx(published, abs=5 * error)


def test_bad_rules_are_named():
    for rule in (Disagreement, VarianceAbove):
        with pytest.raises(InvalidInputError, match="repetitions is 1"):
            rule(1)

"""A mechanism that keeps labels 10% too often is refuted by the audit's claim test."""

import math

import numpy as np
import pytest

from privcore.lower_bounds import stakes_for
from privcore.lower_bounds.betting import log_wealth
from privcore.mechanisms import RandomizedResponse
from tests.simulate import PURE, predictions

RECORDS = 200_000


def pvalue(epsilon: float, classes: int, *, keep_factor: float) -> float:
    """P-value of the claim `epsilon` where labels are kept `keep_factor` times as often."""
    random = np.random.default_rng([41, round(100 * keep_factor)])
    kept = keep_factor * RandomizedResponse(epsilon, classes).keep_probability
    actual = RandomizedResponse(math.log(kept * (classes - 1) / (1.0 - kept)), classes)
    labels = random.integers(0, classes, RECORDS)
    seen = actual.sample(labels, random)
    posterior = actual.distribution()[:, seen].T.copy()
    prior = np.full((RECORDS, classes), 1.0 / classes)
    stakes = stakes_for(PURE, records=RECORDS, classes=classes)
    wealth = log_wealth(
        predictions(posterior, prior, labels), epsilons=np.array([epsilon]), stakes=stakes
    )
    return math.exp(-max(float(wealth[0]), 0.0))


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_keep_probability_that_is_off_by_10_percent_is_refuted(epsilon, classes):
    """N = 200,000, seed 41: the truth stays at significance 0.05, the bug is refuted at 1e-6."""
    assert pvalue(epsilon, classes, keep_factor=1.0) > 0.05
    assert pvalue(epsilon, classes, keep_factor=1.1) < 1e-6

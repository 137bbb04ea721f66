"""A logistic regression against scikit-learn's, and where columns tell all labels."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privcore.attacks.holdout_suspicion import RIDGE, fit_logistic


def test_coefficients_are_those_of_scikit_learn() -> None:
    """200 rows of three columns that stand for other numbers of records, some for none; seed 5."""
    random = np.random.default_rng(5)
    design = random.normal(size=(200, 3))
    ones = random.random(200) < expit(design @ np.array([0.5, -1.0, 2.0]))
    weights = random.integers(0, 5, 200).astype(float)
    peer = LogisticRegression(C=1.0 / RIDGE, fit_intercept=False, tol=1e-10, max_iter=1_000)
    peer.fit(design, ones, sample_weight=weights)
    found = fit_logistic(design, np.where(ones, 1.0, -1.0), weights)
    assert found == pytest.approx(peer.coef_[0], abs=1e-4)


def test_a_column_that_tells_all_labels_has_a_large_coefficient_and_no_error() -> None:
    design = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    found = fit_logistic(design, np.sign(design[:, 0]), np.ones(4))
    assert 5.0 < found[0] < np.inf

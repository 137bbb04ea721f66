"""Test of a model that knows the labels of one of two sets of records."""

import numpy as np
import pytest
from scipy.stats import binomtest

from privcore.attacks.known_labels import LabelFit, advantage, label_fit
from privcore.exceptions import InvalidInputError


def world(random, *, rows=400, classes=3, knows=0.0):
    """Return the fits of two halves; of the first, the model knows labels by `knows`."""
    predicted = random.dirichlet(np.full(classes, 0.7), rows)
    labels = np.array([random.choice(classes, p=row) for row in predicted])
    half = rows // 2
    predicted[:half] *= 1.0 - knows
    predicted[np.arange(half), labels[:half]] += knows
    return label_fit(predicted[:half], labels[:half]), label_fit(predicted[half:], labels[half:])


def test_it_is_the_mean_and_variance_of_the_labels_probabilities():
    random = np.random.default_rng(1)
    predicted = random.dirichlet((1.0, 1.0), 500)
    labels = random.integers(0, 2, 500)
    fit = label_fit(predicted, labels)
    held = predicted[np.arange(500), labels]
    assert fit.mean == pytest.approx(held.mean(), abs=1e-7)
    assert fit.variance == pytest.approx(held.var() / 500, abs=1e-9)
    parts = [label_fit(predicted[i : i + 99], labels[i : i + 99]) for i in range(0, 500, 99)]
    assert sum(parts, start=LabelFit()) == fit


@pytest.mark.slow
def test_a_model_that_knows_nothing_stands_out_by_chance_alone():
    # Size: N = 2,000 worlds, seed 7; P(normal > 1.645) = 0.05, judged exactly at 1e-6.
    random = np.random.default_rng(7)
    high = sum(advantage([world(random, rows=200)]) > 1.645 for _ in range(2_000))
    assert binomtest(high, 2_000, 0.05).pvalue > 1e-6


@pytest.mark.slow
def test_a_model_that_knows_a_little_stands_out():
    # Power: N = 50, seed 8; a tenth of the probability moved to the label of 2,000 records.
    random = np.random.default_rng(8)
    assert all(advantage([world(random, rows=4_000, knows=0.1)]) > 3.0 for _ in range(50))


def test_strata_are_compared_within_themselves():
    easy = LabelFit(100, 90 << 24, 81 << 24), LabelFit(1_000, 900 << 24, 811 << 24)
    hard = LabelFit(1_000, 500 << 24, 251 << 24), LabelFit(100, 50 << 24, 26 << 24)
    assert advantage([easy, hard]) == pytest.approx(0.0, abs=1e-9)
    mixed = [(easy[0] + hard[0], easy[1] + hard[1])]
    assert advantage(mixed) < -10.0


def test_extremes():
    nobody, sure = LabelFit(), LabelFit(10, 10 << 24, 10 << 24)
    assert advantage([]) == advantage([(nobody, sure)]) == advantage([(sure, sure)]) == 0.0
    assert advantage([(sure, LabelFit(10, 0, 0))]) == np.inf
    assert np.isnan(nobody.mean)
    with pytest.raises(InvalidInputError):
        label_fit(np.array([[1.5, -0.5]]), np.array([0]))

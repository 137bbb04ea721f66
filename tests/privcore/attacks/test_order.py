"""Places of predictions among all: the same whatever their unit, and of a sample's quantiles."""

import numpy as np
import pytest

from privcore.attacks import RankedPredictions, borders, places
from privcore.attacks.odds import PLACES
from privcore.exceptions import InvalidInputError


def test_places_are_quantiles_of_a_sample_whatever_the_unit():
    random = np.random.default_rng(94)
    predicted = random.normal(size=100 * PLACES)
    found = places(predicted, borders(predicted))
    assert np.abs(np.bincount(found, minlength=PLACES) - 100).max() <= 1
    assert np.all(np.diff(found[np.argsort(predicted)]) >= 0)
    for other in (predicted * 1e-9 + 1e3, np.exp(predicted), np.sign(predicted) * 1e300):
        assert np.all(np.diff(places(other, borders(other))[np.argsort(predicted)]) >= 0)
    np.testing.assert_array_equal(places(np.exp(predicted), borders(np.exp(predicted))), found)


def test_predictions_of_which_many_are_equal_are_at_one_place():
    zeros = np.concatenate([np.zeros(3 * PLACES), np.linspace(1.0, 2.0, PLACES)])
    found = places(zeros, borders(zeros))
    assert set(found[: 3 * PLACES]) == {0}
    assert np.unique(found).size == 1 + PLACES // 4
    assert found.max() == PLACES - 1
    # Without a sample there are two places, and beyond one everybody is at its end.
    assert places(np.array([-1.0, 0.0, 1.0]), borders(np.zeros(0))).tolist() == [0, 0, PLACES - 1]
    assert places(np.array([-9.0, 9.0]), borders(np.ones(1))).tolist() == [0, PLACES - 1]
    # No number lies between two of opposite ends that a double could not hold.
    assert np.isfinite(borders(np.array([-1.7e308, 1.7e308]))).all()


def test_what_stands_for_probabilities_is_of_the_rows_asked_for():
    some = RankedPredictions(np.array([0.1, 0.2, 0.3]), np.array([7, 8, 9])).of(np.array([2, 0]))
    assert (some.near.tolist(), some.order.tolist()) == ([0.3, 0.1], [9, 7])


def test_what_is_no_number_has_no_place():
    for odd in (np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="finite"):
            borders(np.array([1.0, odd]))
        with pytest.raises(InvalidInputError, match="finite"):
            places(np.array([1.0, odd]), borders(np.zeros(0)))

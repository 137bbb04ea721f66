"""Scales of the plots: where a value lies."""

import math

import numpy as np
import pytest

from flows.report.canvas import Scale


@pytest.mark.parametrize(
    ("kind", "low", "high", "middle"),
    [("linear", 0.0, 4.0, 2.0), ("sqrt", 0.0, 4.0, 1.0)],
)
def test_a_scale_bends_as_its_kind_says(kind, low, high, middle):
    scale = Scale(low, high, 100.0, 0.0, kind)
    assert [scale(value) for value in (low, middle, high)] == pytest.approx([100.0, 50.0, 0.0])


def test_a_scale_of_one_value_has_its_middle():
    assert Scale(3.0, 3.0, 0.0, 80.0)(3.0) == 40.0


@pytest.mark.parametrize("kind", ["linear", "sqrt"])
def test_many_values_have_the_places_of_each(kind):
    scale = Scale(1.0, 9.0, 300.0, 20.0, kind)
    values = [1.0, 2.5, 9.0, 12.0]
    assert scale.places(np.array(values)) == pytest.approx([scale(value) for value in values])
    assert math.isnan(scale.places(np.array([math.nan]))[0])
    if kind != "linear":
        with pytest.raises(FloatingPointError):
            scale.places(np.array([2.0, -1.0]))


def test_where_a_scale_has_one_value_all_lie_in_its_middle():
    places = Scale(2.0, 2.0, 0.0, 100.0).places(np.array([2.0, 7.0, math.nan]))
    assert places[:2] == [50.0, 50.0]
    assert math.isnan(places[2])

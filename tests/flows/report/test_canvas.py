"""Scales of the plots: where a value lies."""

import math

import numpy as np
import pytest

from flows.report.canvas import Scale


@pytest.mark.parametrize(
    ("kind", "low", "high", "middle"), [("linear", 0.0, 4.0, 2.0), ("sqrt", 0.0, 4.0, 1.0)]
)
def test_a_scale_bends_as_its_kind_says(kind, low, high, middle):
    scale = Scale(low, high, 100.0, 0.0, kind)
    assert [scale(value) for value in (low, middle, high)] == pytest.approx([100.0, 50.0, 0.0])


def test_a_square_root_has_no_place_for_a_negative_value():
    with pytest.raises(FloatingPointError):
        Scale(1.0, 9.0, 300.0, 20.0, "sqrt").places(np.array([2.0, -1.0]))


def test_where_a_scale_has_one_value_all_lie_in_its_middle():
    places = Scale(2.0, 2.0, 0.0, 100.0).places(np.array([2.0, 7.0, math.nan]))
    assert places[:2] == [50.0, 50.0]
    assert math.isnan(places[2])

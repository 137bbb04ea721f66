"""Scales of the plots: round values, their labels, and where a value lies."""

import math

import numpy as np
import pytest

from flows.report.canvas import Scale, labelled, round_values


@pytest.mark.parametrize(
    ("low", "high", "count", "values"),
    [
        (0.0, 4.2, 5, [0, 1, 2, 3, 4]),
        (0.0, 1.73, 5, [0, 0.5, 1, 1.5]),
        (-0.125, 1.0, 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.0, 0.3, 3, [0, 0.1, 0.2, 0.3]),
        (0.0, 1e26, 4, [0, 2e25, 4e25, 6e25, 8e25, 1e26]),
    ],
)
def test_values_are_round_and_within(low, high, count, values):
    assert round_values(low, high, count)[0] == pytest.approx(values)


@pytest.mark.parametrize("ends", [(0.0, 0.0), (1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_no_values_where_there_is_no_span(ends):
    assert labelled(*ends, 5) == []


def test_labels_share_their_decimals():
    assert [text for _, text in labelled(0.0, 1.73, 5)] == ["0.0", "0.5", "1.0", "1.5"]
    assert [text for _, text in labelled(-0.4, 0.4, 4)] == ["-0.4", "-0.2", "0.0", "0.2", "0.4"]
    assert [text for _, text in labelled(0.0, 4_000.0, 4)][1:3] == ["1,000", "2,000"]
    assert max(len(text) for _, text in labelled(0.0, 1.7e308, 5)) <= 9


@pytest.mark.parametrize(
    ("kind", "low", "high", "middle"),
    [("linear", 0.0, 4.0, 2.0), ("sqrt", 0.0, 4.0, 1.0), ("log", 0.01, 1.0, 0.1)],
)
def test_a_scale_bends_as_its_kind_says(kind, low, high, middle):
    scale = Scale(low, high, 100.0, 0.0, kind)
    assert [scale(value) for value in (low, middle, high)] == pytest.approx([100.0, 50.0, 0.0])


def test_a_scale_of_one_value_has_its_middle():
    assert Scale(3.0, 3.0, 0.0, 80.0)(3.0) == 40.0


def test_a_logarithm_has_no_place_for_zero():
    with pytest.raises(ValueError, match="math domain"):
        Scale(0.1, 1.0, 0.0, 1.0, "log")(0.0)


@pytest.mark.parametrize("kind", ["linear", "sqrt", "log"])
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

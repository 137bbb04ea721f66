"""Nothing that an owner declares begins a standing anew; what operators decide does."""

from typing import Any

import numpy as np
import pytest

from privcore.attacks import same_holdout
from privcore.lower_bounds import OFFSETS, STANDING_NIGHTS, WINDOW_NIGHTS, ImaginedNight
from workers.warehouse.model_verdict import Standing
from workers.warehouse.standings import _imagined, recurs_from, standings


def night(wealth: float | None, *, price: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A night whose four strategies say the same of its declaration; None: nothing declared."""
    return {
        "epsilon_declared": None if wealth is None else 0.2,
        "standing_price": price,
        "claimed_log_wealth": None if wealth is None else [wealth] * 4,
        "labels_recur": False,
        "holdout_sketch": None,
        "method_version": "1",
        "imagined_mean": None,
        "imagined_variance": None,
    } | changes


def standing(nights: list[dict[str, Any]], **asked: Any) -> list[Standing]:
    asked = {"wanted": range(len(nights))} | asked
    return list(standings(nights, significance=0.01, **asked).values())


def read(nights: list[dict[str, Any]]) -> list[bool]:
    return [one.refuted for one in standing(nights)]


CONSTANT = [night(0.8)] * 14
BEGUN = read(CONSTANT).index(True)


def test_a_constant_declaration_stands_violated_once_its_nights_suffice():
    assert 5 < BEGUN < 10
    assert read(CONSTANT) == [False] * BEGUN + [True] * (14 - BEGUN)
    assert standing([night(None)] * 3) == [Standing()] * 3, "without a declaration none stands"
    assert read([]) == []


def test_a_night_without_a_declaration_multiplies_by_one():
    """Every fourth is dropped: as many declared nights suffice, and the verdict outlives these."""
    nights = [night(None) if number % 4 == 3 else night(0.8) for number in range(14)]
    found = read(nights)
    assert found.index(True) == BEGUN + BEGUN // 3
    assert all(found[BEGUN + BEGUN // 3 :])
    counted = [one.nights for one in standing(nights)]
    assert counted[:9] == [1, 2, 3, 0, 4, 5, 6, 0, 7]


@pytest.mark.parametrize(
    "change",
    [
        {"family": "gaussian"},
        {"delta": 1e-6},
        {"classes": 3},
        {"neighbors": "add_remove"},
        {"epsilon_declared": 0.200000001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_part_of_a_claim_that_changes_begins_a_standing(change):
    nights = [night(0.8, **(change if number % 2 else {})) for number in range(14)]
    assert read(nights) == read(CONSTANT)


def test_nights_with_a_price_of_delta_have_a_standing_of_their_own():
    """Alternating, each kind goes on where it was: neither is begun anew."""
    paid, free = night(1.5, price=1e-6), night(1.5)
    alone = read([paid] * 12).index(True)
    mixed = read([paid, free] * 12)
    assert mixed.index(True) == min(2 * alone, 2 * read([free] * 12).index(True) + 1)
    quiet = read([paid, night(-9.0)] * 12)
    assert quiet.index(True) == 2 * alone


def test_a_standing_ends_after_its_nights():
    """A declaration that is withdrawn ends none before its time."""
    for quiet in (night(0.0), night(None)):
        found = read([night(50.0), *[quiet] * STANDING_NIGHTS])
        assert found == [True] * STANDING_NIGHTS + [False]
    paid = read([night(50.0, price=1e-6), *[night(0.0, price=1e-6)] * WINDOW_NIGHTS])
    assert paid == [True] * WINDOW_NIGHTS + [False]


@pytest.mark.parametrize("change", [{"method_version": "2"}, {"labels_recur": True}])
def test_what_operators_decide_begins_a_standing(change):
    assert read([night(50.0), night(0.0), night(0.0, **change)]) == [True, True, False]


def sketch(*words: int) -> str:
    """Return a sketch of as many bytes."""
    return bytes(words).hex()


def test_nights_of_one_holdout_are_no_new_chances():
    """Nights that suffice with new holdouts do not with one; before its first return they stand."""
    one = sketch(200, 201)
    assert read([night(0.8, holdout_sketch=sketch(n, n)) for n in range(14)]) == read(CONSTANT)
    assert read([night(0.8, holdout_sketch=one)] * 14) == [False] * 14
    later = [night(0.8, holdout_sketch=sketch(min(n, BEGUN))) for n in range(14)]
    assert read(later) == read(CONSTANT)
    loud = [night(50.0, holdout_sketch=one), night(0.0, holdout_sketch=one)]
    assert read(loud) == [True, True]


def test_a_holdout_comes_again_where_half_of_a_sketch_is_an_earlier_nights():
    """Byte by byte: the same bytes in other places are those of another holdout."""
    sketches = [sketch(1, 2, 3, 4), sketch(2, 1, 4, 3), None, sketch(1, 9, 9, 9)]
    sketches += [sketch(1, 9, 3, 8), sketch(7, 7, 7, 7), sketch(1, 2, 3, 4)]
    assert same_holdout(sketches).tolist() == [-1, -1, -1, -1, 3, -1, 4]
    assert recurs_from(sketches).tolist() == [False] * 4 + [True] * 3
    assert recurs_from(sketches[:4]).tolist() == [False] * 4
    assert recurs_from(sketches[:4], recurring=True).tolist() == [True] * 4
    assert recurs_from([None, None]).tolist() == [False, False]
    assert recurs_from([sketches[0]] * 2).tolist() == [False, True], "the very first night's"


def imagined(**changes: Any) -> dict[str, Any]:
    """A night that knows what its two strategies would say of a leak."""
    moments = [float(place) for place in range(2 * len(OFFSETS))]
    return night(0.0, imagined_mean=moments, imagined_variance=moments[::-1]) | changes


def test_what_nights_would_have_seen_is_asked_of_those_that_stand_together(monkeypatch):
    """Of the nights so far, at the standing's significance; of one that is unknown, of none."""
    seen: list[tuple[Any, ...]] = []

    def sees(nights: list[ImaginedNight], *, significance: float, recurring: bool) -> float:
        seen.append((len(nights), significance, recurring))
        return 2.0 - 0.25 * len(nights)

    module = "workers.warehouse.standings."
    monkeypatch.setattr(module + "sees_from_together", sees)
    monkeypatch.setattr(module + "nights_until_conclusive", lambda *_, **__: 9)
    found = standing([imagined()] * 3)
    assert [(one.nights, one.sees_from) for one in found] == [(1, 1.75), (2, 1.5), (3, 1.25)]
    assert [(one.conclusive_after, one.repeat) for one in found] == [(9, False)] * 3
    assert seen == [(1, 0.01, False), (2, 0.01, False), (3, 0.01, False)]
    unknown = standing([imagined(), night(0.0), imagined()])
    assert [(one.nights, one.sees_from) for one in unknown] == [(1, 1.75), (2, None), (3, None)]
    again = [imagined(holdout_sketch=sketch(*words)) for words in ((1, 2), (3, 4), (3, 4))]
    assert [one.repeat for one in standing(again)] == [False, False, True]
    assert [one.repeat for one in standing([imagined(labels_recur=True)] * 2)] == [True] * 2
    seen.clear()
    near = standings([imagined()] * 3, significance=0.01, wanted=[2], near=[1, 2])
    assert (near[1].nights, near[2].nights) == (0, 3)
    assert [count for count, *_ in seen] == [3], "of nights nearby only what refutes is asked"


def test_a_night_is_imagined_by_strategies_and_offsets():
    made = _imagined(imagined(epsilon_declared=0.4, standing_price=1e-6))
    assert made is not None
    assert (made.epsilon, made.price) == (0.4, 1e-6)
    assert np.shape(made.mean) == np.shape(made.variance) == (2, len(OFFSETS))
    assert np.asarray(made.mean)[1, 0] == len(OFFSETS)
    assert np.asarray(made.variance)[0, 0] == 2 * len(OFFSETS) - 1
    assert _imagined(night(0.0)) is None

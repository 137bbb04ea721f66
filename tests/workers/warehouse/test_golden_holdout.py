"""Series of nights beside one holdout accuse no model that leaks nothing.

Yesterday's model knows the labels of 300 holdout rows by 0.05 in log-odds, which no test of a night
sees. Training reads no label. Each series has 28 nights of 3,000 training rows; the same holdout is
drawn on every night, or a new one.
"""

import functools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flows.study.exam_worlds import both, drawn
from privcore.attacks import (
    HoldoutSketch,
    PaperScore,
    Tallies,
    generator,
    hashed_numbers,
    label_inference,
    odds_tally,
)
from privcore.guarantees import PureDP
from privcore.lower_bounds import (
    Claim,
    Evidence,
    Grid,
    read_evidence,
    standing_epsilons,
    window_epsilon_lower,
)
from workers.warehouse.standings import by_recurrence, recurs_from

CLAIM = Claim(family=PureDP(), delta=0.0, epsilon=0.05, significance=0.04)
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]
Nights = list[tuple[Evidence, str | None]]
"""Each night's evidence, and the sketch of its holdout."""


def rows(many: int, random: np.random.Generator) -> Rows:
    truth = random.normal(-0.3, 1.0, many)
    return truth, drawn(truth, random)


def arm(found: Rows, random: np.random.Generator, *, proxy: float, target: float) -> Any:
    """Return (target, proxy, labels); each model knows labels by as much, in log-odds."""
    truth, labels = found
    sides = 2 * labels - 1
    said = truth + 0.1 * random.normal(size=truth.size) + target * sides
    before = truth + 0.4 * random.normal(size=truth.size) + proxy * sides
    return both(said), both(before), labels


def series(seed: int, *, golden: bool, leak: float = 0.0) -> Nights:
    held, made = rows(300, np.random.default_rng([seed, 1])), []
    for number in range(28):
        random = np.random.default_rng([seed, 2, number])
        own = held if golden else rows(300, random)
        arms = (
            arm(rows(3_000, random), random, proxy=0.0, target=leak),
            arm(own, random, proxy=0.05 if golden and not leak else 0.0, target=0.0),
        )
        games = [
            label_inference(*each, score=PaperScore(), repetitions=1, key=place)
            for place, each in enumerate(arms)
        ]
        tallies = Tallies(*games, *((odds_tally(*each),) for each in arms), classes=2)
        evidence = read_evidence(
            tallies,
            claim=CLAIM,
            choice=Grid((1.0,)),
            paper_delta=1e-5,
            random=generator(seed, number),
        )
        made.append((evidence, HoldoutSketch.of([hashed_numbers(own[0], "truth")]).text()))
    return made


def without_sketches(nights: Nights) -> Nights:
    return [(evidence, None) for evidence, _ in nights]


def accused(nights: Nights) -> dict[str, list[float]]:
    """Return bounds of windows of 7, of the one of 28, and of the standing; 1 where refuted."""

    def window(first: int, last: int) -> float:
        found, sketches = zip(*nights[first:last], strict=True)
        recurs = bool(recurs_from(sketches)[-1])
        each = [one.window_night for one in found]
        return window_epsilon_lower(each, significance=0.04, recurring=recurs)

    found, sketches = zip(*nights, strict=True)
    each = [one.standing_night for one in found]
    test = functools.partial(standing_epsilons, each, significance=0.01)
    return {
        "weeks": [window(first, first + 7) for first in range(0, len(nights), 7)],
        "whole": [window(0, len(nights))],
        "standing": [float(by_recurrence(test, recurs_from(sketches)).max())],
    }


@pytest.mark.slow
def test_nights_beside_a_golden_holdout_accuse_nobody():
    """Four series, seeds 0 to 3: 16 windows of 7, 4 of 28, 4 standings, each exact and public.

    None is above 0. As products, without sketches, some of each kind are: of 16 series (seeds 0 to
    15) 20 of 64 windows of 7, 14 of 28 and 12 standings.
    """
    products = []
    for seed in range(4):
        nights = series(seed, golden=True)
        assert {max(bounds) for bounds in accused(nights).values()} == {0.0}
        products.append(accused(without_sketches(nights)))
    for name in products[0]:
        assert max(max(found[name]) for found in products) > 0.0, name


@pytest.mark.slow
def test_nights_with_fresh_holdouts_lose_nothing():
    """Two series in which the target knows labels by 0.15, seeds 10 and 11: the same to the bit.

    All are found by the window of 28 nights and by the standing.
    """
    for seed in (10, 11):
        nights = series(seed, golden=False, leak=0.15)
        found = accused(nights)
        assert found == accused(without_sketches(nights))
        assert all(min(found[name]) > 0.0 for name in found if "weeks" not in name)
        assert [sketch for _, sketch in nights] != [None] * 28

"""The threshold test over nights: what it costs a label, whom it accuses, and whom it finds."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.stakes import stakes_for
from privcore.publication import NoisyWealth, ThresholdTest
from privcore.publication.above_threshold import _reached
from privcore.publication.keyed_noise import KeyedBits, discrete_laplace
from privcore.publication.noisy_wealth import SENSITIVITY, UNITS
from privcore.publication.statement import evidence_of
from tests.privcore.publication.test_statement import claim, responses

KEY = bytes(range(32))
LEVEL = 1e-6
HALF = Fraction(1, 2)


def noise_of(rate: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of discrete Laplace noise, and their probabilities."""
    values = np.arange(-most, most + 1)
    return values, math.tanh(rate / 2.0) * np.exp(-rate * np.abs(values))


def chance_at_least(bar: np.ndarray, rate: float) -> np.ndarray:
    """Return P(noise >= bar)."""
    far = np.exp(-rate * np.abs(bar)) / (1.0 + math.exp(-rate))
    return np.where(bar > 0, far, 1.0 - far * math.exp(-rate))


def answers(
    figures: tuple[int, ...], bars: tuple[int, ...], rates: tuple[float, float]
) -> np.ndarray:
    """Return the probability of an alarm on each night, and of none, by summing over the noise."""
    values, chance = noise_of(rates[0], math.ceil(60.0 / rates[0]))
    found, silent = [], chance
    for figure, bar in zip(figures, bars, strict=True):
        alarm = chance_at_least(bar + values - figure, rates[1])
        found.append(float((silent * alarm).sum()))
        silent = silent * (1.0 - alarm)
    return np.array([*found, float(silent.sum())])


def worst_ratio(rates: tuple[float, float], nights: int) -> float:
    """Return the largest privacy loss over neighbours, figures and answers of so many nights."""
    moves = list(itertools.product((-SENSITIVITY, 0, SENSITIVITY), repeat=nights))
    worst = 0.0
    for below in (-2000, -200, 0, 200, 2000):
        bars = (0,) * nights
        one = answers((below,) * nights, bars, rates)
        for move in moves:
            other = answers(tuple(below + step for step in move), bars, rates)
            worst = max(worst, float(np.abs(np.log(one / other)).max()))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [HALF, Fraction(2)])
def test_one_label_changes_the_answers_of_all_nights_by_epsilon_at_most(epsilon: Fraction) -> None:
    """All 81 neighbours of four nights, five places of the figures, all answers; exact sums."""
    test = ThresholdTest(epsilon, 0.05, 4)
    rates = float(test.threshold_rate), float(test.night_rate)
    loss = worst_ratio(rates, 4)
    assert loss <= float(epsilon) * (1.0 + 1e-9)
    assert loss >= 0.85 * float(epsilon), "the noise is wasteful"
    assert worst_ratio((rates[0], 2.0 * rates[1]), 4) > 1.05 * float(epsilon), "no power"
    assert worst_ratio((4.0 * rates[0], rates[1]), 4) > 1.05 * float(epsilon), "no power"


def test_silence_costs_the_thresholds_share_however_many_nights() -> None:
    test = ThresholdTest(Fraction(1), 0.05, 40)
    rates = float(test.threshold_rate), float(test.night_rate)
    one, other = (answers((figure,) * 40, (300,) * 40, rates) for figure in (0, SENSITIVITY))
    assert 0.2 < math.log(one[-1] / other[-1]) <= 0.4


def test_answers_have_the_probabilities_that_are_summed() -> None:
    """2,000 tests of two nights, keys 0 to 1,999, against the exact sums."""
    test = ThresholdTest(Fraction(4), 0.5, 2)
    bar = test.threshold(0.02)
    assert bar is not None
    figures = bar - 60, bar + 30
    found = np.zeros(3)
    for number in range(2000):
        key = number.to_bytes(32, "little")
        nights = [NoisyWealth(test.epsilon_alike, 0.02, figure) for figure in figures]
        told = [
            test.alarms(exact, key=key, test="t", night=(place,))
            for place, exact in enumerate(nights)
        ]
        found[told.index(True) if any(told) else 2] += 1
    expected = answers(figures, (bar, bar), (float(test.threshold_rate), float(test.night_rate)))
    assert stats.chisquare(found, 2000 * expected).pvalue > LEVEL


@pytest.mark.parametrize("gain", [0.001, 0.01, 0.02, 0.3])
def test_the_closed_form_is_the_sum(gain: float) -> None:
    bars = np.array([-300, -1, 0, 1, 2, 50, 400])
    values, chance = noise_of(0.02, 3000)
    naive = [
        float(chance @ np.minimum(1.0, np.exp(-gain * np.maximum(bar - values, 0)))) for bar in bars
    ]
    np.testing.assert_allclose(_reached(bars, gain, 0.02), naive, rtol=1e-9)


def simulated(
    random: np.random.Generator, test: ThresholdTest, figures: np.ndarray, bar: int
) -> np.ndarray:
    """Return whether each run of nights alarms; figures are of shape (runs, nights)."""

    def noise(rate: Fraction, size: Any) -> np.ndarray:
        chance = -math.expm1(-float(rate))
        return random.geometric(chance, size) - random.geometric(chance, size)

    levels = noise(test.threshold_rate, (figures.shape[0], 1))
    return (figures + noise(test.night_rate, figures.shape) >= bar + levels).any(axis=1)


@pytest.mark.parametrize(("epsilon", "nights"), [(HALF, 1), (HALF, 30), (Fraction(1, 10), 30)])
@pytest.mark.parametrize("stake", [0.0, 3.0, 6.0, 9.0, 12.0])
def test_an_innocent_model_is_accused_with_the_significance_at_most(
    epsilon: Fraction, nights: int, stake: float
) -> None:
    """40,000 runs, seed 34. A night's wealth is e^stake with probability e^-stake, else 0."""
    random = np.random.default_rng(34)
    test, gap = ThresholdTest(epsilon, 0.05, nights), 0.04
    bar = test.threshold(gap)
    assert bar is not None
    won = random.random((40_000, nights)) < math.exp(-stake)
    figures = np.where(won, math.floor(UNITS * stake / gap), -(10**9))
    accused = int(simulated(random, test, figures, bar).sum())
    assert stats.binomtest(accused, 40_000, 0.05, alternative="greater").pvalue > LEVEL


def test_nights_that_depend_on_each_other_accuse_no_more_often() -> None:
    """40,000 runs, seed 35: one night of 30 wins, and which is chosen so that nights exclude."""
    random = np.random.default_rng(35)
    test, gap = ThresholdTest(Fraction(2), 0.05, 30), 0.04
    bar = test.threshold(gap)
    assert bar is not None
    stake = math.log(30 / 0.05)
    winner = np.where(
        random.random(40_000) < 30 * math.exp(-stake), random.integers(0, 30, 40_000), 30
    )
    won = winner[:, None] == np.arange(30)
    figures = np.where(won, math.floor(UNITS * stake / gap), -(10**9))
    accused = int(simulated(random, test, figures, bar).sum())
    assert accused > 0
    assert stats.binomtest(accused, 40_000, 0.05, alternative="greater").pvalue > LEVEL


def evidence(random: np.random.Generator, test: ThresholdTest, truth: float) -> NoisyWealth:
    """Return a night of 20,000 records of randomized response at `truth`, declared 1."""
    tables = responses(random, 20_000, truth)
    stakes = stakes_for(claim(1.0), records=15_000, classes=2, control=5_000)
    return evidence_of(tables, 1.0, stakes, test.epsilon_alike)


@pytest.mark.parametrize(("truth", "least", "most"), [(1.0, 0, 2), (1.2, 38, 40)])
def test_a_false_declaration_is_found_and_a_true_one_is_not(
    truth: float, least: int, most: int
) -> None:
    """40 runs of 30 nights at 0.5 in all, seed 36; declared 1. A statement each would cost 15."""
    random = np.random.default_rng(36)
    test = ThresholdTest(HALF, 0.05, 30)
    accused = 0
    for number in range(40):
        accused += any(
            test.alarms(evidence(random, test, truth), key=KEY, test=f"t{number}", night=(night,))
            for night in range(30)
        )
    assert least <= accused <= most


def test_the_threshold_rises_with_nights_and_falls_with_epsilon() -> None:
    def bar(epsilon: Fraction, nights: int, price: float = 0.0) -> int:
        found = ThresholdTest(epsilon, 0.05, nights).threshold(0.04, price)
        assert found is not None
        return found

    assert bar(HALF, 1) < bar(HALF, 10) < bar(HALF, 100)
    assert bar(Fraction(2), 10) < bar(HALF, 10) < bar(Fraction(1, 10), 10)
    assert bar(HALF, 10) < bar(HALF, 10, price=0.002)
    assert ThresholdTest(HALF, 0.05, 10).threshold(0.04, 0.01) is None
    exact = NoisyWealth(HALF, 0.04, 10**9, 0.01)
    assert not ThresholdTest(HALF, 0.05, 10).alarms(exact, key=KEY, test="t", night=())


@pytest.mark.parametrize(
    ("epsilon", "nights", "gap", "price", "bar"),
    [
        (Fraction(1, 10), 1, 0.02, 0.0, 12_047),
        (Fraction(1, 10), 30, 0.02, 0.0, 23_298),
        (HALF, 30, 0.02, 0.0, 20_713),
        (HALF, 90, 0.1, 1e-4, 5_504),
        (Fraction(2), 7, 0.5, 0.0, 806),
        (Fraction(1, 20), 365, 0.01, 1e-5, 63_212),
        (Fraction(4), 3, 2.0, 0.0, 263),
    ],
)
def test_a_threshold_is_the_same_in_every_version(
    epsilon: Fraction, nights: int, gap: float, price: float, bar: int
) -> None:
    """It is published and signed, and who verifies a night computes it again."""
    assert ThresholdTest(epsilon, 0.05, nights).threshold(gap, price) == bar


def test_the_threshold_is_the_least_at_which_the_significance_is_kept() -> None:
    """Summed over all noise of at least -B, with P(noise < -B) at most a tenth of 0.05."""
    test, gap = ThresholdTest(Fraction(8), 0.05, 7), 0.5
    rate, night_rate = float(test.threshold_rate), float(test.night_rate)
    assert (test.threshold_rate, test.night_rate) == (Fraction(16, 5) / 65, Fraction(24, 5) / 130)
    assert test.epsilon_alike == 65 / (65 / Fraction(16, 5) + 130 / Fraction(24, 5))
    lowest = math.ceil(-math.log(0.005) / rate)
    values, chance = noise_of(rate, 1_000)
    below = float(chance[values < -lowest].sum())
    assert below <= 0.005
    others, other = noise_of(night_rate, 1_500)

    def false_alarm(bar: int) -> float:
        """Return E[min(1, exp(-gap (bar + rho - nu)/64)); rho >= -B]."""
        kept = values >= -lowest
        short = np.minimum(0.0, others[None, :] - bar - values[kept][:, None])
        return float(chance[kept] @ np.exp(gap * short / 64.0) @ other)

    bar = test.threshold(gap)
    assert bar is not None
    allowed = (0.05 - below) / 7
    assert false_alarm(bar) <= allowed < false_alarm(bar - 1)


def test_the_threshold_is_drawn_once_and_each_nights_noise_anew() -> None:
    """Noise that all nights shared, or that labels did not enter, would cancel in a difference."""
    test = ThresholdTest(HALF, 0.05, 10)
    bar = test.threshold(0.04)
    assert bar is not None

    def told(figure: int, name: str, *night: str | int) -> bool:
        exact = NoisyWealth(HALF, 0.04, figure)
        return test.alarms(exact, key=KEY, test=name, night=night)

    same = [told(bar, f"t{number}", 0) for number in range(200)]
    assert same == [told(bar, f"t{number}", 0) for number in range(200)]
    assert 20 < sum(same) < 180
    for other in (
        [told(bar, f"t{number}", 1) for number in range(200)],
        [told(bar, f"t{number}", 0, "other labels") for number in range(200)],
        [told(bar + 1, f"t{number}", 0) for number in range(200)],
    ):
        agreed = sum(one == two for one, two in zip(same, other, strict=True))
        assert 80 < agreed < 190


def test_a_night_alarms_from_the_noisy_threshold_on() -> None:
    """A holder of the key computes the same; in some of 200 tests both are equal."""
    test = ThresholdTest(Fraction(64), 0.05, 1)
    bar = test.threshold(0.04)
    assert bar is not None
    met = 0
    for number in range(200):
        level = discrete_laplace(test.threshold_rate, KeyedBits(KEY, "threshold", f"t{number}"))
        drawn = KeyedBits(KEY, "above threshold", f"t{number}", 0, bar)
        above = discrete_laplace(test.night_rate, drawn) - level
        exact = NoisyWealth(HALF, 0.04, bar)
        assert test.alarms(exact, key=KEY, test=f"t{number}", night=(0,)) == (above >= 0)
        met += above == 0
    assert met > 0


@pytest.mark.parametrize(
    "wrong", [(Fraction(0), 0.05, 1), (HALF, 0.0, 1), (HALF, 1.0, 1), (HALF, 0.05, 0)]
)
def test_what_is_no_test_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        ThresholdTest(*wrong)

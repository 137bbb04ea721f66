"""Exact noise from a key: its distribution, its repeatability, and what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privcore.publication import KeyedBits, discrete_laplace, discrete_laplace_tail
from tests.support.refusals import refused

KEY = bytes(range(32))


def drawn(rate, number, name="a"):
    random = KeyedBits(KEY, name)
    return np.array([discrete_laplace(rate, random) for _ in range(number)])


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 7), Fraction(2), Fraction(1, 650)])
def test_noise_has_the_distribution_that_privacy_rests_on(rate):
    """A chi-square test at 1e-4 on 20,000 draws; a rate of one tenth more is found."""
    noise = drawn(rate, 20_000)

    def pvalue(loss):
        width = max(1, round(0.3 / loss))
        cells = np.arange(-8, 9) * width
        below = np.array([_cdf(loss, cell - 1) for cell in cells])
        chances = np.diff(np.concatenate([[0.0], below, [1.0]]))
        counts = np.histogram(noise, bins=[-math.inf, *cells, math.inf])[0]
        return float(stats.chisquare(counts, chances * noise.size).pvalue)

    assert pvalue(float(rate)) > 1e-4
    assert pvalue(1.1 * float(rate)) < 1e-4


def _cdf(loss, most):
    """Return P(noise <= most), by the two geometric tails."""
    if most < 0:
        return math.exp(loss * most) / (1.0 + math.exp(-loss))
    return 1.0 - math.exp(-loss * (most + 1)) / (1.0 + math.exp(-loss))


@pytest.mark.parametrize("beyond", [0, 1, 5])
def test_the_tail_is_the_sum_of_what_it_holds(beyond):
    rate = Fraction(1, 3)
    sizes = np.arange(-2_000, 2_001)
    chances = np.exp(-float(rate) * np.abs(sizes))
    chances /= chances.sum()
    expected = chances[sizes > beyond].sum()
    assert discrete_laplace_tail(rate, beyond) == pytest.approx(expected, rel=1e-12)


def test_the_same_key_and_name_give_the_same_noise_and_others_give_other():
    rate = Fraction(1, 100)
    first = drawn(rate, 50)
    assert np.array_equal(first, drawn(rate, 50))
    assert not np.array_equal(first, drawn(rate, 50, "b"))
    other = KeyedBits(bytes(32), "a")
    assert not np.array_equal(first, [discrete_laplace(rate, other) for _ in range(50)])


def test_noise_is_the_same_in_every_version():
    """A statement that was served must be drawn again as it was; literals of 2026-11-23."""
    random = KeyedBits(KEY, "golden", 1)
    ends = [random.below(1 << 512) % 10**6 for _ in range(2)]
    assert [*ends, random.below(10**6)] == [70099, 15781, 762975]
    noise = [discrete_laplace(Fraction(1, 650), random) for _ in range(6)]
    assert noise == [3162, 409, 48, -122, -1245, 2106]


def test_names_are_told_apart_however_they_are_cut():
    names = [("a", "bc"), ("ab", "c"), ("abc",), ("a", "bc", ""), ("1",), (1,)]
    streams = {KeyedBits(KEY, *name).below(1 << 256) for name in names}
    assert len(streams) == len(names)


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 1 << 70])
def test_integers_below_a_bound_are_uniform(bound):
    random = KeyedBits(KEY, bound)
    values = [random.below(bound) for _ in range(6_000)]
    assert 0 <= min(values) <= max(values) < bound
    cells = min(bound, 8)
    counts = np.bincount([value * cells // bound for value in values], minlength=cells)
    if bound > 1:
        chances = [
            (-(-(cell + 1) * bound // cells) + (-cell * bound // cells)) / bound
            for cell in range(cells)
        ]
        assert stats.chisquare(counts, np.array(chances) * len(values)).pvalue > 1e-4


def test_where_one_block_ends_and_the_next_begins_bits_are_fair():
    drawn = [KeyedBits(KEY, name).below(1 << 1_024) for name in range(200)]
    for place in (0, 510, 511, 512, 513, 1_023):
        assert 60 <= sum(value >> place & 1 for value in drawn) <= 140


@pytest.mark.parametrize("length", [0, 16, 31, 65])
def test_a_key_that_can_be_guessed_or_is_cut_is_refused(length):
    refused("32 to 64 random bytes", KeyedBits, bytes(length), "a")


def test_what_makes_no_sense_is_refused():
    random = KeyedBits(KEY)
    refused("positive", discrete_laplace, Fraction(0), random)
    refused("positive", discrete_laplace_tail, Fraction(-1), 3)
    refused("at least 0", discrete_laplace_tail, Fraction(1), -1)
    refused("at least 1", random.below, 0)

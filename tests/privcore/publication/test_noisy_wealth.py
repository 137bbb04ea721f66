"""A noisy wealth held against its naive twin, which adds up the noise's distribution term by term.

The twin knows the definitions alone: P(j) proportional to exp(-e |j|/65), M = E[exp(gap j/64);
j <= b], and p = 1/W~ + P(j > b) + price. It is written for a noise of few terms that matter.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privcore.attacks import Matched
from privcore.publication.keyed_noise import KeyedBits, discrete_laplace
from privcore.publication.noisy_wealth import (
    SENSITIVITY,
    UNITS,
    NoisyWealth,
    exactly,
    gap_for,
    in_units,
    with_noise,
)
from tests.support.refusals import refused

TERMS = 80_000
GIVEN = [
    (Fraction(1, 2), 0.05, 900, 0.0),
    (Fraction(1, 20), 0.01, 40_000, 0.0),
    (Fraction(1, 20), 0.24, 952, 0.0),
    (Fraction(1, 4), 0.2, 2_500, 0.004),
    (Fraction(1, 2), 0.05, -70, 0.0),
    (Fraction(1, 4), 0.16, 3_000, 0.0),  # no bound needs 0.08 nats more: it is taken
    (Fraction(1, 4), 0.175, 3_000, 0.0),  # 0.14 nats more: it is not
    (Fraction(1, 2), 0.6, 700, 0.0),  # few records: the noise has no mean without a bound
    (Fraction(1, 4), 64.0 / 260.0, 1_500, 0.0),  # as many nats a unit as noise loses: no mean
]


def log_chances(epsilon):
    noise = np.arange(-TERMS, TERMS + 1)
    weights = -float(epsilon) / 65.0 * np.abs(noise)
    return noise, weights - np.logaddexp.reduce(weights)


def naive_pvalue(wealth, bound):
    noise, chance = log_chances(wealth.epsilon_public)
    kept = noise <= (TERMS if bound is None else bound)
    powers = wealth.gap / 64.0 * noise[kept] + chance[kept]
    mean = np.logaddexp.reduce(powers)
    evidence = math.exp(-max(wealth.gap / 64.0 * wealth.figure - mean, 0.0))
    return min(1.0, evidence + float(np.exp(chance[~kept]).sum()) + wealth.price)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("significance", [0.04, 0.01])
def test_the_pvalue_is_the_twins_at_the_bound_that_needs_less_evidence(given, significance):
    wealth = NoisyWealth(*given)
    level = significance - wealth.price
    # Where noise beyond the bound takes a tenth of the level: exp(-e b/65) = level/10.
    cut = math.ceil(-math.log(0.1 * level) * 65.0 / float(wealth.epsilon_public))
    found = wealth.pvalue(significance)
    finite = wealth.gap / 64.0 < float(wealth.epsilon_public) / 65.0
    choices = [naive_pvalue(wealth, cut)] + [naive_pvalue(wealth, None)] * finite
    assert any(math.isclose(found, one, rel_tol=1e-6) for one in choices)

    def needed(bound):
        """Nats that W~ must have at the level, less what it has: constant in the figure."""
        noise, chance = log_chances(wealth.epsilon_public)
        kept = noise <= (TERMS if bound is None else bound)
        mean = np.logaddexp.reduce(wealth.gap / 64.0 * noise[kept] + chance[kept])
        return float(mean) - math.log(level - float(np.exp(chance[~kept]).sum()))

    unbounded = finite and needed(None) <= needed(cut) + 0.1
    expected = naive_pvalue(wealth, None if unbounded else cut)
    assert math.isclose(found, expected, rel_tol=1e-6)


@pytest.mark.parametrize("given", GIVEN)
def test_the_evalue_is_the_twins_without_a_bound(given):
    wealth = NoisyWealth(*given)
    if wealth.gap / 64.0 >= float(wealth.epsilon_public) / 65.0:
        assert wealth.log_evalue is None
        return
    noise, chance = log_chances(wealth.epsilon_public)
    mean = np.logaddexp.reduce(wealth.gap / 64.0 * noise + chance)
    expected = wealth.gap / 64.0 * wealth.figure - float(mean)
    if wealth.price:
        expected = min(expected, -math.log(wealth.price)) - math.log(2.0)
    assert wealth.log_evalue == pytest.approx(expected, rel=1e-6)


def test_the_evalue_of_a_claim_with_delta_is_cut_at_its_price():
    cheap = NoisyWealth(Fraction(1, 2), 0.05, 90_000, 0.004)
    assert cheap.log_evalue == pytest.approx(math.log(1.0 / 0.004 / 2.0))


def test_the_gap_and_the_units_are_those_of_the_definition():
    """Two tables of 300 and 100, and of 60 and 20: N = 75 + 15."""
    tables = Matched(
        *(np.array(one) for one in ([300, 60], [200, 30], [100, 20], [50, 10])), offset=np.zeros(2)
    )
    assert gap_for(tables, Fraction(1, 10)) == pytest.approx(4.0 / math.sqrt(90.0 + 1000.0))
    assert gap_for(tables, Fraction(2)) == pytest.approx(4.0 / math.sqrt(92.5))
    assert in_units(1.0, gap=0.05, tables=2) == 1280
    assert in_units(0.9999, gap=0.05, tables=2) == 1279
    assert in_units(-0.0001, gap=0.05, tables=2) == -1
    assert (UNITS, SENSITIVITY) == (64, 65)


def test_so_many_tables_that_rounding_could_move_a_unit_are_refused():
    """2e-9 nats a table are half a unit of gap/64 from 0.5 gap/(64 2e-9) tables on."""
    most = int(0.5 * 0.05 / (64 * 2e-9))
    assert in_units(1.0, gap=0.05, tables=most) == 1280
    refused("are allowed", in_units, 1.0, gap=0.05, tables=most + 2)
    assert in_units(0.0, gap=2 * 64 * 2e-9, tables=1) == 0  # half a unit itself is allowed


def test_a_privacy_loss_is_as_it_is_written():
    assert exactly(0.1) == Fraction(1, 10)
    assert exactly(1e-3) == Fraction(1, 1000)


def test_a_holder_of_the_key_can_take_the_noise_away():
    exact = NoisyWealth(Fraction(1, 20), 0.02, 100, 0.003)
    noise = discrete_laplace(Fraction(1, 20 * 65), KeyedBits(bytes(32), "a", 100))
    assert noise != 0
    assert with_noise(exact, bytes(32), "a") == replace(exact, figure=100 + noise)
    other = with_noise(replace(exact, figure=101), bytes(32), "a")
    assert other.figure != 101 + noise  # else a difference would tell the label


def test_delta_that_takes_all_of_the_significance_refutes_nothing():
    wealth = NoisyWealth(Fraction(1, 2), 0.05, 90_000, 0.01)
    assert wealth.pvalue(0.01) >= 0.01
    assert wealth.pvalue(0.005) > 0.005
    assert wealth.pvalue(0.02) < 0.02

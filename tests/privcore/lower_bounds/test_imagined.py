"""Imagined nights and their tables, compared with real ones and with exact sums."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from privcore.attacks import Matched, generator, match
from privcore.attacks.odds import OddsTally
from privcore.lower_bounds import Secret, imagined_tables
from privcore.lower_bounds.betting import stakes_for
from privcore.lower_bounds.imagined import ReferenceRows, cells_at
from privcore.lower_bounds.matched import NIGHT_GAPS, log_wealth_of_tables, night_log_wealth
from privcore.lower_bounds.power import OFFSETS
from tests.leaking_worlds import binary, claimed, members, read, several
from tests.simulate import PURE


@pytest.fixture(autouse=True)
def _no_night_is_read_for_windows(monkeypatch):
    """A night has a hundred points for windows, and no test here reads one of them."""
    monkeypatch.setattr("privcore.lower_bounds.evidence.WINDOW_EPSILONS", np.zeros(1))


def moments(world, claim, *, offset, nights):
    """Return means and deviations of real nights' strategies, and the same as they are imagined.

    Imagined from nights that leak nothing. Seeds 0 to `nights` - 1, and from 1,000 on.
    """
    place, made, said = OFFSETS.index(offset), [], []
    for seed in range(nights):
        tallies = world(claim.epsilon + offset, np.random.default_rng(seed))
        made.append(read(tallies, claim, seed).claimed_night.log_wealth)
    for seed in range(1_000, 1_006):
        tallies = world(0.0, np.random.default_rng(seed))
        night = read(tallies, claim, seed, with_power=True).power.imagined
        said.append([night.mean[:, place], night.variance[:, place]])
    mean, variance = np.mean(said, axis=0)
    real = np.array(made)
    return real.mean(axis=0), real.std(axis=0, ddof=1), mean, np.sqrt(variance)


def alike(found, nights):
    """Assert means within five standard errors and a twentieth, deviations within 40%."""
    real, spread, mean, deviation = found
    error = 5.0 * spread / np.sqrt(nights) + 0.05 * np.abs(real) + 0.1
    assert np.all(np.abs(mean - real) < error)
    assert np.all(deviation < 1.4 * spread + 0.1)
    assert np.all(spread < 1.4 * deviation + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(
    ("world", "claim"),
    [
        (binary(3_000, 750), claimed(1.0)),
        (binary(3_000, 750), claimed(1.0, delta=1e-5)),
        (binary(3_000, 750, base=-4.2), claimed(1.0)),
        (several(2_000, 500, 4), claimed(1.0)),
    ],
)
def test_the_moments_are_those_of_real_nights_of_all_kinds(world, claim, offset):
    alike(moments(world, claim, offset=offset, nights=80), 80)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_the_moments_of_pairs_are_those_of_real_nights(offset):
    """A larger leak tells more pairs apart than tonight's, with which the night is imagined."""
    claim = claimed(0.5, secret=Secret.MEMBERSHIP)
    alike(moments(members(900, 300), claim, offset=offset, nights=80), 80)


@pytest.mark.parametrize(
    ("first", "second", "tolerance"),
    [(1, 1, 0.02), (4, 2, 0.02), (12, 5, 0.02), (60, 15, 0.02), (900, 200, 0.02)],
)
def test_a_table_wins_what_the_exact_sum_says(first, second, tolerance):
    """For 50 tables (seed 1), at the gaps that as many of 20 such tables have."""
    random = np.random.default_rng(1)
    worth = 20 * first * second / (first + second)
    gaps = np.minimum(np.array([4.0, 8.0, 16.0, 32.0]) / math.sqrt(worth), 6.0)
    for _ in range(50):
        chance, odds = random.uniform(0.05, 0.95), random.uniform(0.0, 3.0)
        right = random.binomial([first, second], chance)
        table = np.array([[first, right[0], second, right[1], 0.25]], dtype=float)
        made = imagined_tables._log_wealth(table, odds, gaps)
        counts = (np.array([number]) for number in (first, right[0], second, right[1]))
        exact = log_wealth_of_tables(*counts, np.array([0.25]), np.array([odds]), gaps)
        assert made == pytest.approx(exact[0], abs=tolerance)


@pytest.mark.parametrize("chance", [0.0, 0.03, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("number", [0, 1, 7, 60, 5_000])
def test_counts_are_quantiles_of_the_binomial_distribution(number, chance):
    for uniform in (0.001, 0.2, 0.5, 0.77, 0.999):
        exact = binom.ppf(uniform, number, chance) if number else 0
        wide = number * chance * (1.0 - chance) > 16.0
        assert abs(imagined_tables._binomial(uniform, number, chance) - exact) <= 3 * wide


def test_the_control_is_raised_as_that_of_a_real_night():
    random = np.random.default_rng(2)
    for _ in range(30):
        control = random.integers(1, 30, 8)
        right = random.binomial(control, 0.4)
        unaided = control * random.uniform(0.2, 0.7, 8)
        made = Matched(control, right, control, right, np.zeros(8), unaided=unaided)
        table = np.stack([control, right, control, right, np.zeros(8)], axis=1).astype(float)
        imagined_tables._raise_control(table, unaided)
        assert table[:, 3].tolist() == made.no_worse_than_unaided().control_right.tolist()


def rows_of(random, cells=40):
    proxy = (np.sort(random.choice(np.arange(180, 260), cells, replace=False)) + 0.5) / 16.0 - 14.0
    made = random.integers(5, 60, cells), random.integers(1, 20, cells)
    return ReferenceRows(np.zeros(cells, dtype=np.int64), proxy, proxy, *made, np.ones(cells))


def tallied(rows, cells, uniforms, leak):
    """Return both arms of one imagined night as tallies: what `match` reads of a real one."""
    draw = imagined_tables._binomial
    arms = [np.zeros_like(OddsTally.zero().counts) for _ in range(2)]
    for i, proxy in enumerate(rows.proxy):
        place, u = round((proxy + 14.0) * 16.0 - 0.5), uniforms[:, i]
        moves = [int((proxy + by + 14.0) * 8.0) for by in (-leak, leak)]
        for arm, records in enumerate((rows.records[i], rows.held[i])):
            answers = draw(u[3 * arm], records, cells.answered[i])
            for answer, made in enumerate((records - answers, answers)):
                chance = cells.chance[i] if arm else cells.right[answer, i]
                ones = draw(u[3 * arm + 1 + answer], made, chance)
                arms[arm][place, moves[answer]] += made - ones, ones
    return [OddsTally(int(arm.sum()), arm) for arm in arms]


def test_a_night_is_worth_what_its_match_is():
    """Of 40 nights (seed 3) on all records: within 0.5 nats, and within 0.05 on average.

    The match fits the proxy anew each night, sees the target in bins, and takes fewer of the
    holdout where more than chance explains look alike.
    """
    random, leak, epsilon = np.random.default_rng(3), 1.5, 0.5
    rows = rows_of(random)
    cells = cells_at(rows, leak, classes=2)
    uniforms = random.random((40, imagined_tables.DRAWS, rows.proxy.size))
    weights = np.ones((imagined_tables.LEVELS, 4)) / 20.0
    bets = np.array(NIGHT_GAPS), np.array([4.0, 8.0, 16.0, 32.0]), weights
    made = imagined_tables.imagined_log_wealth(
        uniforms, cells, log_odds=epsilon, log_cap=6.0, bets=bets, wins=True
    )
    apart = []
    for night, each in enumerate(uniforms):
        arms = tallied(rows, cells, each, leak)
        tables = match((arms[0],), (arms[1],), random=generator(night))
        raised = [one.no_worse_than_unaided() for one in tables]
        stakes = stakes_for(PURE, records=arms[0].records, control=arms[1].records, classes=2)
        real = night_log_wealth(raised, epsilons=np.array([epsilon]), stakes=stakes)
        apart.append(made[night, :2] - real[:2, 0])
    assert np.abs(apart).max() < 0.5
    assert np.abs(np.mean(apart, axis=0)).max() < 0.05


def test_bets_that_may_not_win_never_do():
    random = np.random.default_rng(4)
    rows = rows_of(random)
    cells = cells_at(rows, 6.0, classes=2)
    uniforms = random.random((4, imagined_tables.DRAWS, rows.proxy.size))
    bets = np.array(NIGHT_GAPS), np.array([4.0]), np.full((imagined_tables.LEVELS, 1), 0.2)
    won, lost = (
        imagined_tables.imagined_log_wealth(
            uniforms, cells, log_odds=0.5, log_cap=6.0, bets=bets, wins=wins
        )
        for wins in (True, False)
    )
    assert won.min() > 5.0
    assert lost.max() <= 0.0

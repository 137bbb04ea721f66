import dataclasses

import numpy as np
import pytest

from privcore.attacks import generator, match, odds_tally
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Claim,
    Night,
    stakes_for,
    standing_epsilons,
    standing_length,
    window_epsilon_lower,
    window_epsilons,
)
from privcore.lower_bounds.betting import DELTA_SHARE
from privcore.lower_bounds.matched import NIGHT_GAPS, night_log_wealth
from privcore.lower_bounds.windows import _from_every_start, _parts
from tests.simulate import assert_rate_at_most, randomized_response, two_columns
from tests.support.tiers import tiered

PURE = Claim(family=PureDP(), delta=0.0)


def fresh(records, random):
    """A day on which nothing leaks: the target is another model than the proxy, as for all."""
    chance = random.uniform(0.1, 0.9, records)
    drawn = random.random(records) < chance
    believed = np.clip(chance + random.normal(0.0, 0.1, records), 0.01, 0.99)
    return two_columns(believed), two_columns(chance), np.asarray(drawn, dtype=np.int64)


def tables_and_stakes(training, control, claim, *, seed, significance=0.05, nights=WINDOW_NIGHTS):
    """The matched tables of a night with two classes, and how it bets against its claim."""
    arms = odds_tally(*training), odds_tally(*control)
    tables = match((arms[0],), (arms[1],), random=generator(seed))
    stakes = stakes_for(
        dataclasses.replace(claim, significance=significance),
        records=arms[0].records,
        control=arms[1].records,
        classes=2,
        nights=nights,
    )
    return tables, stakes


def night(training, control, *, claim=PURE, seed=0, significance=0.05, nights=WINDOW_NIGHTS):
    tables, stakes = tables_and_stakes(
        training, control, claim, seed=seed, significance=significance, nights=nights
    )
    grid = np.array([stakes.replacement(float(epsilon)) for epsilon in WINDOW_EPSILONS])
    wealth = night_log_wealth(tables, epsilons=grid, stakes=stakes)
    return Night(wealth, float(stakes.prices.max()))


def held_out(records, epsilon, random):
    """Records like those of randomized response, of which the target read other labels."""
    target, proxy, _ = randomized_response(records, epsilon, random)
    return target, proxy, (random.random(records) < proxy[:, 1]).astype(np.int64)


def flat(wealth, price=0.0):
    """A night that says the same at every epsilon and for every strategy."""
    return Night(np.full((len(NIGHT_GAPS), WINDOW_EPSILONS.size), wealth), price)


@pytest.mark.slow
def test_windows_and_standings_are_silent_where_nothing_leaks():
    """N = 150 weeks of 200 training and 100 holdout records a night, seed 21."""
    random = np.random.default_rng(21)
    windows = standings = 0
    for number in range(150):
        nights = [night(fresh(200, random), fresh(100, random), seed=number) for _ in range(7)]
        windows += window_epsilon_lower(nights) > 0.0
        standings += standing_epsilons(nights, significance=0.05)[-1] > 0.0
    assert_rate_at_most(windows, 150, 0.05)
    assert_rate_at_most(standings, 150, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nights_add_power_and_stay_below_the_truth(delta):
    """N = 30 weeks of 1,500 training and 500 holdout records, epsilon 1, seed 23."""
    random = np.random.default_rng(23)
    claim = PURE if delta == 0.0 else Claim(family=ApproxDP(), delta=delta)
    weeks, singles = [], []
    for number in range(30):
        nights = [
            night(
                randomized_response(1_500, 1.0, random),
                held_out(500, 1.0, random),
                claim=claim,
                seed=number,
            )
            for _ in range(7)
        ]
        weeks.append(window_epsilon_lower(nights))
        singles.append(window_epsilon_lower(nights[:1]))
    assert_rate_at_most(sum(week > 1.0 for week in weeks), 30, 0.05)
    assert np.mean(weeks) > 0.7
    assert np.mean(weeks) > np.mean(singles) + 0.2


def from_every_start(nights, length):
    """Return the wealth of a standing's strategies after each night, summed over starts."""
    wealth = np.exp([one.log_wealth for one in nights])
    held = []
    for last in range(len(nights)):
        total = 0.5 * wealth[: last + 1].prod(axis=0)
        for start in range(1, length):
            total = total + 0.5 / (length - 1) * wealth[start : last + 1].prod(axis=0)
        held.append(total)
    return np.mean(held, axis=1)


@pytest.mark.parametrize(
    ("price", "length"),
    tiered([(1e-9, WINDOW_NIGHTS), (0.0, STANDING_NIGHTS)], always=1, slow=1),
)
def test_a_standing_stakes_on_every_night_from_which_a_leak_may_begin(price, length):
    """Against the sum over starts, to a standing's last night, on 200 random standings, seed 25."""
    random = np.random.default_rng(25)
    proved = []
    for _ in range(200):
        number = int(random.choice([1, 2, 9, WINDOW_NIGHTS, length]))
        levels = random.normal(-0.2, 1.5, (number, len(NIGHT_GAPS), WINDOW_EPSILONS.size))
        levels += random.uniform(0.0, 6.0) * (random.random((number, 1, 1)) < 0.1)
        nights = [Night(level, price) for level in levels]
        left = 0.01 * ((1.0 - DELTA_SHARE) if price else 1.0)
        expected = from_every_start(nights, length)
        parts = _parts(np.arange(length))[:number]
        held = np.exp(_from_every_start(levels, parts)).mean(axis=1)
        np.testing.assert_allclose(held, expected, rtol=1e-9)
        enough = expected >= 1.0 / left
        reached = [row.argmin() if not row.all() else row.size for row in enough]
        points = np.where(np.array(reached) > 0, WINDOW_EPSILONS[np.maximum(reached, 1) - 1], 0.0)
        standing = standing_epsilons(nights)
        np.testing.assert_array_equal(standing, np.maximum.accumulate(points))
        proved.append(standing[-1])
    assert 20 < np.count_nonzero(proved) < 180


@pytest.mark.slow
def test_a_window_errs_at_most_at_its_significance():
    """Exact: all 2^12 ways that e-values of 0.1 or 1.9, each of chance 1/2, may follow."""
    falls, rises = flat(np.log(0.1)), flat(np.log(1.9))
    wrong = sum(
        window_epsilon_lower([rises if path >> k & 1 else falls for k in range(12)]) > 0.0
        for path in range(2**12)
    )
    assert 0.005 < wrong / 2**12 <= 0.05


def test_a_standing_that_is_watched_every_day_errs_at_most_at_its_significance():
    """Exact: all 2^12 ways that e-values of 0.1 or 1.9, each of chance 1/2, may follow."""
    falls, rises = flat(np.log(0.1)), flat(np.log(1.9))
    ever = sum(
        standing_epsilons([rises if path >> k & 1 else falls for k in range(12)], significance=0.1)[
            -1
        ]
        > 0.0
        for path in range(2**12)
    )
    assert 0.01 < ever / 2**12 <= 0.1


def test_recurring_labels_are_averaged_and_not_multiplied():
    """The same night seven times is one night; multiplied it would prove a leak out of chance."""
    lucky = flat(np.log(5.0))
    assert window_epsilon_lower([lucky] * 7) == WINDOW_EPSILONS[-1]
    assert window_epsilon_lower([lucky] * 7, recurring=True) == 0.0
    sure = flat(np.log(21.0))
    assert window_epsilon_lower([sure] * 7, recurring=True) == WINDOW_EPSILONS[-1]
    # One night of seven has to make up for the others.
    assert window_epsilon_lower([flat(np.log(139.0))] + [flat(0.0)] * 6, recurring=True) > 0.0
    assert window_epsilon_lower([flat(np.log(130.0))] + [flat(0.0)] * 6, recurring=True) == 0.0


def test_a_recurring_standing_tests_every_night_at_its_share():
    needed = STANDING_NIGHTS / 0.01
    below, above = flat(np.log(needed * 0.99)), flat(np.log(needed * 1.01))
    np.testing.assert_array_equal(standing_epsilons([below] * 3, recurring=True), np.zeros(3))
    found = standing_epsilons([below, above, below], recurring=True)
    np.testing.assert_array_equal(found, [0.0, WINDOW_EPSILONS[-1], WINDOW_EPSILONS[-1]])


@pytest.mark.parametrize("recurring", [False, True])
def test_many_windows_at_once_are_each_windows_own_bound(recurring):
    """100 windows of 1 to 28 nights, days left out, against the formula written out; seed 35."""
    random = np.random.default_rng(35)
    days = np.sort(random.choice(90, 60, replace=False))
    price = 1e-4
    wealth = 0.5 * random.uniform(0.0, 3.0, (60, 1, 1)) * (1.0 - WINDOW_EPSILONS / 4.0)
    wealth = wealth + random.normal(0.0, 0.4, (60, 4, WINDOW_EPSILONS.size))
    wealth = wealth * (8.0 if recurring else 1.0)  # a mean grows by no night
    ends = random.integers(1, 61, 100)
    spans = [(max(0, end - int(random.integers(1, 29))), int(end)) for end in ends]
    significance = random.choice([0.05, 0.01, 1e-9], 100)
    found = window_epsilons(
        [Night(one, price) for one in wealth],
        days=days.tolist(), spans=spans, significance=significance.tolist(), recurring=recurring,
    )  # fmt: skip
    expected = [
        _naive_window(wealth[a:b], days[a:b], allowed - price * (b - a), recurring=recurring)
        for (a, b), allowed in zip(spans, significance, strict=True)
    ]
    assert found.tolist() == expected
    assert len(set(expected)) > 10 and 0.0 in expected  # noqa: PT018


def _naive_window(wealth, days, left, *, recurring):
    """The proof of `window_epsilon_lower`, day by day, for each point alone."""
    if left <= 0.0:
        return 0.0
    best = 0.0
    for stop in range(len(wealth) if recurring else 1, len(wealth) + 1):
        reached = 0.0
        for point, epsilon in enumerate(WINDOW_EPSILONS):
            values = np.exp(wealth[:, :, point])
            stake = values.mean() if recurring else _staked(values, days, stop)
            if stake < 1.0 / left:
                break
            reached = float(epsilon)
        best = max(best, reached)
    return best


def _staked(values, days, stop):
    """The stake after `stop` nights, of half from the first on and the rest from each day on."""
    if len(values) == 1:
        return values[0].mean()
    later = 0.5 * np.diff(days) / (days[-1] - days[0])
    parts = [0.5, *later]
    waiting = sum(parts[stop:])
    held = sum(part * values[k:stop].prod(axis=0) for k, part in enumerate(parts[:stop]))
    return (held + waiting).mean()


def test_the_bound_is_the_last_point_before_the_first_that_is_not_rejected():
    wealth = np.full((len(NIGHT_GAPS), WINDOW_EPSILONS.size), np.log(30.0))
    wealth[:, 12] = 0.0
    assert window_epsilon_lower([Night(wealth, 0.0)]) == WINDOW_EPSILONS[11]


def test_delta_is_paid_by_every_night_of_the_window():
    # 0.05 - 3 x 0.01 leaves 0.02, so 50 is needed: w^3 / 2 + w^2 / 4 + w / 4 at w = 4.45.
    assert window_epsilon_lower([flat(np.log(4.5), 0.01)] * 3) == WINDOW_EPSILONS[-1]
    assert window_epsilon_lower([flat(np.log(4.4), 0.01)] * 3) == 0.0
    assert window_epsilon_lower([flat(100.0, 0.05)]) == 0.0


def test_a_standing_sets_all_of_deltas_share_aside_from_its_first_night():
    price = 0.0075 / WINDOW_NIGHTS
    needed = np.log(2.0 / 0.0025 - 1.0)  # the half that waits is kept
    assert standing_epsilons([flat(needed + 1e-6, price)])[0] == WINDOW_EPSILONS[-1]
    assert standing_epsilons([flat(needed - 1e-3, price)])[0] == 0.0
    # Nights that cost more than was set aside prove nothing from there on.
    dear = standing_epsilons([flat(0.0, 0.004), flat(50.0, 0.004)])
    np.testing.assert_array_equal(dear, [0.0, 0.0])


def test_delta_over_a_standing_of_full_length_costs_at_most_its_share():
    claim = Claim(family=ApproxDP(), delta=1e-5, significance=0.01)
    for records in (500, 50_000, 10_000_000):
        stakes = stakes_for(claim, records=records, classes=2, nights=WINDOW_NIGHTS)
        assert WINDOW_NIGHTS * stakes.prices.max() <= 0.0075 * (1 + 1e-9)


def test_lengths_of_standings():
    assert standing_length(0.0) == STANDING_NIGHTS
    assert standing_length(1e-9) == WINDOW_NIGHTS
    assert standing_epsilons([flat(0.1)] * STANDING_NIGHTS).shape == (STANDING_NIGHTS,)
    for nights in ([flat(0.1)] * (STANDING_NIGHTS + 1), [flat(0.1, 1e-6)] * (WINDOW_NIGHTS + 1)):
        with pytest.raises(InvalidInputError, match="begin a new one"):
            standing_epsilons(nights)


def test_the_grid_of_windows_is_what_was_agreed():
    steps = np.diff(WINDOW_EPSILONS)
    np.testing.assert_allclose(steps[:40], 0.05)
    np.testing.assert_allclose(steps[40:80], 0.1)
    np.testing.assert_allclose(steps[80:], 0.25)
    assert (WINDOW_EPSILONS[0], WINDOW_EPSILONS[-1], WINDOW_EPSILONS.size) == (0.0, 14.0, 113)


def test_bad_input_is_refused():
    for call in (window_epsilon_lower, standing_epsilons):
        with pytest.raises(InvalidInputError, match="nights is 0, but there is at least one night"):
            call([])
        with pytest.raises(InvalidInputError, match="log_wealth"):
            call([Night(np.zeros((4, 3)), 0.0)])
        with pytest.raises(InvalidInputError, match="log_wealth"):
            call([flat(0.0), dataclasses.replace(flat(0.0), log_wealth=np.zeros((3, 113)))])
        with pytest.raises(InvalidInputError, match="significance"):
            call([flat(0.0)], significance=1.5)
    for days in ([0], [0, 0], [1, 0], [0, 1, 2]):
        with pytest.raises(InvalidInputError, match=r"days is .*, but 2 numbers that ascend"):
            window_epsilon_lower([flat(0.0)] * 2, days=days)


def test_nights_that_cost_all_that_was_set_aside_are_paid_for():
    """28 nights at exactly their share: the last one counts, a dearer one does not."""
    share = DELTA_SHARE * 0.01 / WINDOW_NIGHTS
    quiet = [flat(0.0, share)] * (WINDOW_NIGHTS - 1)
    loud = flat(50.0, share)
    assert standing_epsilons([*quiet, loud], significance=0.01)[-1] == WINDOW_EPSILONS[-1]
    dearer = flat(50.0, 1.001 * share)
    assert standing_epsilons([*quiet, dearer], significance=0.01)[-1] == 0.0

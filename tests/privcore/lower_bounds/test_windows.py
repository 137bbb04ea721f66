"""Windows, standings and declarations over nights: exact errors, naive twins, and honest owners.

Days that play together are matched by day. Rates are judged with an exact binomial test at 1e-6.
"""

import functools
import itertools
import operator
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from privcore.attacks import (
    PaperScore,
    ScoredRecords,
    UnitChoices,
    match,
    odds_tally,
    unit_records,
    unit_tallies,
)
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Claim,
    ClaimedNight,
    Night,
    declarations_refuted,
    matched_epsilon_lower,
    stakes_for,
    standing_epsilons,
    standing_length,
    window_epsilon_lower,
)
from privcore.lower_bounds.betting import DELTA_SHARE
from privcore.lower_bounds.matched import NIGHT_GAPS, night_log_wealth
from tests.simulate import (
    PURE,
    assert_rate_at_most,
    night,
    randomized_response,
    tables_of,
    two_columns,
    unread,
)
from tests.support.refusals import refused
from tests.support.tiers import rest_slow, tiered


def held_out(records, epsilon, random):
    """Records like those of randomized response, of which the target read other labels."""
    return unread(randomized_response(records, epsilon, random), random)


def flat(wealth, price=0.0):
    """A night that says the same at every epsilon and for every strategy."""
    return Night(np.full((len(NIGHT_GAPS), WINDOW_EPSILONS.size), wealth), price)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nights_add_power_and_stay_below_the_truth(delta):
    """N = 30 weeks of 1,500 training and 500 holdout records, epsilon 1, seed 23."""
    random = np.random.default_rng(23)
    claim = PURE if delta == 0.0 else Claim(family=ApproxDP(), delta=delta)
    weeks, singles = [], []
    for number in range(30):
        arms = (
            (randomized_response(1_500, 1.0, random), held_out(500, 1.0, random)) for _ in range(7)
        )
        nights = [night(*each, claim=claim, seed=number) for each in arms]
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
    ("price", "length"), tiered([(1e-9, WINDOW_NIGHTS), (0.0, STANDING_NIGHTS)], always=1, slow=1)
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
        enough = expected >= 1.0 / left
        reached = [row.argmin() if not row.all() else row.size for row in enough]
        points = np.where(np.array(reached) > 0, WINDOW_EPSILONS[np.maximum(reached, 1) - 1], 0.0)
        standing = standing_epsilons(nights)
        np.testing.assert_array_equal(standing, np.maximum.accumulate(points))
        proved.append(standing[-1])
    assert 20 < np.count_nonzero(proved) < 180


@pytest.mark.parametrize(
    "proved",
    rest_slow([lambda nights: standing_epsilons(nights, significance=0.1)[-1],
               lambda nights: window_epsilon_lower(nights, significance=0.1)]),
    ids=["a standing that is watched every day", "a window"],
)  # fmt: skip
def test_it_errs_at_most_at_its_significance(proved):
    """Exact: all 2^12 ways that e-values of 0.1 or 1.9, each of chance 1/2, may follow."""
    falls, rises = flat(np.log(0.1)), flat(np.log(1.9))
    paths = itertools.product((falls, rises), repeat=12)
    wrong = sum(proved(path) > 0.0 for path in paths)
    assert 0.01 < wrong / 2**12 <= 0.1


def test_a_recurring_standing_tests_every_night_at_its_share():
    needed = STANDING_NIGHTS / 0.01
    below, above = flat(np.log(needed * 0.99)), flat(np.log(needed * 1.01))
    np.testing.assert_array_equal(standing_epsilons([below] * 3, recurring=True), np.zeros(3))
    found = standing_epsilons([below, above, below], recurring=True)
    np.testing.assert_array_equal(found, [0.0, WINDOW_EPSILONS[-1], WINDOW_EPSILONS[-1]])


@pytest.mark.parametrize("recurring", [False, True])
def test_windows_are_the_formula_written_out(recurring):
    """100 windows of 1 to 28 nights, days left out, against the naive formula; seed 35."""
    random = np.random.default_rng(35)
    days = np.sort(random.choice(90, 60, replace=False))
    price = 1e-4
    wealth = 0.5 * random.uniform(0.0, 3.0, (60, 1, 1)) * (1.0 - WINDOW_EPSILONS / 4.0)
    wealth = wealth + random.normal(0.0, 0.4, (60, 4, WINDOW_EPSILONS.size))
    wealth = wealth * (8.0 if recurring else 1.0)  # a mean grows by no night
    ends = random.integers(1, 61, 100)
    spans = [(max(0, end - int(random.integers(1, 29))), int(end)) for end in ends]
    significance = random.choice([0.05, 0.01, 1e-9], 100)
    found = [
        window_epsilon_lower(
            [Night(one, price) for one in wealth[a:b]],
            days=days[a:b], significance=allowed, recurring=recurring,
        )
        for (a, b), allowed in zip(spans, significance, strict=True)
    ]  # fmt: skip
    expected = [
        _naive_window(wealth[a:b], days[a:b], allowed - price * (b - a), recurring=recurring)
        for (a, b), allowed in zip(spans, significance, strict=True)
    ]
    assert found == expected
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


def test_a_standing_sets_all_of_deltas_share_aside_from_its_first_night():
    price = 0.0075 / WINDOW_NIGHTS
    needed = np.log(2.0 / 0.0025 - 1.0)  # the half that waits is kept
    assert standing_epsilons([flat(needed + 1e-6, price)])[0] == WINDOW_EPSILONS[-1]
    assert standing_epsilons([flat(needed - 1e-3, price)])[0] == 0.0
    # Nights that cost more than was set aside prove nothing from there on.
    dear = standing_epsilons([flat(0.0, 0.004), flat(50.0, 0.004)])
    np.testing.assert_array_equal(dear, [0.0, 0.0])


def test_lengths_of_standings():
    assert standing_length(0.0) == STANDING_NIGHTS
    assert standing_length(1e-9) == WINDOW_NIGHTS
    assert standing_epsilons([flat(0.1)] * STANDING_NIGHTS).shape == (STANDING_NIGHTS,)
    for nights in ([flat(0.1)] * (STANDING_NIGHTS + 1), [flat(0.1, 1e-6)] * (WINDOW_NIGHTS + 1)):
        refused("begin a new one", standing_epsilons, nights)


def test_the_grid_of_windows_is_what_was_agreed():
    steps = np.diff(WINDOW_EPSILONS)
    np.testing.assert_allclose(steps[:40], 0.05)
    np.testing.assert_allclose(steps[40:80], 0.1)
    np.testing.assert_allclose(steps[80:], 0.25)
    assert (WINDOW_EPSILONS[0], WINDOW_EPSILONS[-1], WINDOW_EPSILONS.size) == (0.0, 14.0, 113)


def test_bad_input_is_refused():
    for call in (window_epsilon_lower, standing_epsilons):
        refused("nights is 0, but there is at least one night", call, [])
        refused("log_wealth", call, [Night(np.zeros((4, 3)), 0.0)])
        with pytest.raises(InvalidInputError, match="log_wealth"):
            call([flat(0.0), replace(flat(0.0), log_wealth=np.zeros((3, 113)))])
        refused("significance", call, [flat(0.0)], significance=1.5)
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


def claim_at(wealth, price=0.0):
    return ClaimedNight(0.2, np.full(4, wealth), price)


def world(truths, random, *, delta, seed):
    """Nights of 400 training and 200 holdout records of randomized response, each at its claim."""
    nights = []
    for epsilon in truths:
        claim = Claim(family=ApproxDP() if delta else PureDP(), delta=delta, epsilon=epsilon)
        arms = randomized_response(400, epsilon, random), held_out(200, epsilon, random)
        tables, staked = tables_of(*arms, seed)
        stakes = staked(claim, nights=WINDOW_NIGHTS)
        at = np.array([stakes.replacement(epsilon)])
        wealth = night_log_wealth(tables, epsilons=at, stakes=stakes)[:, 0]
        nights.append(ClaimedNight(epsilon, wealth, float(stakes.prices.max())))
    return nights


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_true_declarations_that_change_are_seldom_refuted(delta):
    """N = 60 standings of 9 nights: mechanism and declaration change together, exactly true."""
    random = np.random.default_rng(31)
    refuted = 0
    for number in range(60):
        truths = random.choice([0.25, 0.5, 1.0, 2.0], 9)
        nights = world(truths, random, delta=delta, seed=number)
        refuted += bool(declarations_refuted(nights, significance=0.05)[-1])
    assert_rate_at_most(refuted, 60, 0.05)


@pytest.mark.slow
def test_declarations_are_refuted_wrongly_at_most_at_the_significance():
    """Exact: all 2^12 ways that e-values may follow, of which each night has two of its own."""
    odds = [(0.1, 1.9), (0.5, 1.5), (0.9, 1.1), (0.0001, 1.9999)] * 3
    nights = [[claim_at(np.log(value)) for value in pair] for pair in odds]
    wrong = sum(
        declarations_refuted(path, significance=0.1)[-1] for path in itertools.product(*nights)
    )
    assert 0.01 < wrong / 2**12 <= 0.1


LEVELS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)


@pytest.mark.parametrize("epsilon", [each + more for each in (0.0, *LEVELS) for more in (0.0, 0.1)])
def test_what_declares_more_than_a_level_takes_nothing_from_it(epsilon):
    """A sixteenth of the stake, half from the first night on, is on each level not below it."""
    lost = ClaimedNight(50.0, np.full(4, -99.0), 0.0)
    parts = sum(epsilon <= level for level in LEVELS)
    for more, refuted in ((0.02, parts > 0), (-0.06, False)):
        needed = np.log(2.0 * 100.0 * 16.0 / max(parts, 0.1)) + more
        won = ClaimedNight(epsilon, np.full(4, needed / 2.0), 0.0)
        assert bool(declarations_refuted([won, lost, lost, won])[-1]) is refuted


def test_what_was_refuted_stays_so_and_quiet_nights_cost_nothing():
    quiet, loud = claim_at(-20.0), claim_at(np.log(254.0 / 0.01) + 1e-6)
    found = declarations_refuted([*[quiet] * 5, loud, *[quiet] * 3])
    assert found.tolist() == [False] * 5 + [True] * 4


def test_recurring_labels_are_not_multiplied():
    lucky = claim_at(np.log(100.0))
    assert declarations_refuted([lucky] * 9)[-1]
    assert not declarations_refuted([lucky] * 9, recurring=True).any()
    sure = claim_at(np.log(STANDING_NIGHTS / 0.01 * 1.01))
    assert declarations_refuted([lucky, sure], recurring=True).tolist() == [False, True]


def test_nights_that_delta_cannot_pay_for_refute_nothing():
    assert declarations_refuted([claim_at(50.0, 0.007)])[-1]
    for recurring in (False, True):
        dear = [claim_at(0.0, 0.004), claim_at(50.0, 0.004)]
        assert not declarations_refuted(dear, recurring=recurring).any()


def test_bad_input_of_declarations_is_refused():
    refused("nights is 0", declarations_refuted, [])
    for other in (ClaimedNight(0.2, np.zeros(3), 0.0), ClaimedNight(0.2, np.zeros((4, 2)), 0.0)):
        refused("the same strategies", declarations_refuted, [claim_at(0.0), other])
    refused("a standing of their own", declarations_refuted, [claim_at(0.0), claim_at(0.0, 1e-6)])
    refused("significance", declarations_refuted, [claim_at(0.0)], significance=1.5)
    for many in (
        [claim_at(0.0)] * (STANDING_NIGHTS + 1),
        [claim_at(0.0, 1e-6)] * (WINDOW_NIGHTS + 1),
    ):
        refused("begin a new one", declarations_refuted, many)


CLAIM = Claim(family=PureDP(), delta=0.0, epsilon=0.5)
WEEK = 7
CLEAR = tuple(day % 2 == 0 for day in range(WEEK))
RATES = tuple(0.95 if clear else 0.55 for clear in CLEAR)
HELD_OUT = tuple(0.1 if clear else 0.5 for clear in CLEAR)


def innocent_day(day, rows, random):
    """A target that knows each half's mean over the week, and no label; one half changes by day."""
    changing = random.random(rows) < 0.5
    labels = (random.random(rows) < np.where(changing, RATES[day], 0.3)).astype(np.int64)
    target, proxy = two_columns(np.where(changing, 0.8, 0.3)), two_columns(np.full(rows, 0.5))
    return target, proxy, labels, random.random(rows) < HELD_OUT[day]


def bound(training, control, random):
    stakes = stakes_for(CLAIM, records=sum(odds.records for odds in training), classes=2)
    return matched_epsilon_lower(match(training, control, random=random), stakes=stakes)


def pooled(odds):
    return (functools.reduce(operator.add, odds),)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "accused"), tiered([(60, 40), (600, 190)], always=1, slow=1))
def test_days_that_hold_out_different_shares_accuse_nobody(rows, accused):
    """N = 200 weeks, seed 90; pooled, at least so many of the same weeks had a bound above 0."""
    random = np.random.default_rng(90)
    wrong, wrong_pooled = 0, 0
    for _ in range(200):
        training, control = [], []
        for day in range(WEEK):
            target, proxy, labels, held = innocent_day(day, rows, random)
            for odds, arm in ((training, ~held), (control, held)):
                odds.append(odds_tally(target[arm], proxy[arm], labels[arm]))
        wrong += bound(training, control, random) > 0.0
        wrong_pooled += bound(pooled(training), pooled(control), random) > 0.0
    assert_rate_at_most(wrong, 200, CLAIM.significance)
    assert wrong_pooled >= accused


def persons_of_a_week(random):
    """Each person has one or two rows, on any days, and is held out as its first day holds out."""
    arms = [UnitChoices.zero(2), UnitChoices.zero(2)]
    people = np.arange(600)
    days = random.integers(0, WEEK, people.size)
    rows_of_each = random.integers(1, 3, people.size)
    held = random.random(people.size) < np.array(HELD_OUT)[days]
    for day in range(WEEK):
        rows = np.repeat(np.flatnonzero(days == day), rows_of_each[days == day])
        target, proxy, labels, _ = innocent_day(day, rows.size, random)
        for place, arm in enumerate((~held[rows], held[rows])):
            records = ScoredRecords(target, proxy, labels, day, group=day).of(np.flatnonzero(arm))
            arms[place] += unit_records(records, people[rows[arm]], unit_key=1)
    return arms


@pytest.mark.slow
def test_persons_of_a_week_accuse_nobody_either():
    """N = 50 weeks of 600 persons, seed 91; in groups by their rows alone they are accused."""
    random = np.random.default_rng(91)
    wrong = {WEEK: 0, 1: 0}
    for _ in range(50):
        arms = persons_of_a_week(random)
        for groups in wrong:
            played = arms if groups == WEEK else [in_one_group(arm) for arm in arms]
            tallies = unit_tallies(*played, score=PaperScore(), repetitions=1, key=0, groups=groups)
            bets = tallies.bet_on
            assert len(bets.odds) == 5 * groups
            assert sum(odds.records for odds in bets.odds) == arms[0].moved.streams.size
            wrong[groups] += bound(bets.odds, bets.control_odds, random) > 0.0
    assert_rate_at_most(wrong[WEEK], 50, CLAIM.significance)
    assert wrong[1] > 12


def in_one_group(units):
    alike = (replace(one, groups=0 * one.groups) for one in (units.doubted, units.moved))
    return UnitChoices(*alike)


def test_a_persons_group_is_the_day_of_the_record_that_plays():
    """One person's surer row is of day 0, the less sure one, which plays, of day 2."""
    sure, unsure = np.array([[0.1, 0.9]]), np.array([[0.4, 0.6]])
    label, person = np.array([1]), np.array([7])
    both = sum(
        (
            unit_records(ScoredRecords(row, row, label, day, group=day), person, unit_key=1)
            for row, day in ((sure, 0), (unsure, 2))
        ),
        start=UnitChoices.zero(2),
    ).doubted
    assert both.groups.tolist() == [2]
    assert [group.streams.size for group in both.matched_within(3)] == [0] * 11 + [1] + [0] * 3


def test_a_leak_of_small_days_is_seen_in_a_week_and_not_in_a_day():
    """N = 20 weeks of 100 rows a day, a fifth held out; each training label is remembered.

    Seed 92. Measured: a mean bound of 2.0 for a day and of 4.2 for the week.
    """
    random = np.random.default_rng(92)
    days, weeks = [], []
    for _ in range(20):
        training, control = [], []
        for _ in range(WEEK):
            belief = random.normal(0.0, 1.0, 100)
            labels = (random.random(100) < expit(belief)).astype(np.int64)
            held = random.random(100) < 0.2
            known = expit(np.where(held, belief, belief + np.where(labels == 1, 12.0, -12.0)))
            target, proxy = two_columns(known), two_columns(expit(belief))
            for odds, arm in ((training, ~held), (control, held)):
                odds.append(odds_tally(target[arm], proxy[arm], labels[arm]))
        days.append(bound(training[:1], control[:1], random))
        weeks.append(bound(training, control, random))
    assert np.mean(weeks) > np.mean(days) + 1.5

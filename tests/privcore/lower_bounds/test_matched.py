"""E-values of matched records: their mean over every outcome, their shape, and bounds from them."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks.matching import SHARES, Matched
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import Claim, matched_epsilon_lower, matched_log_wealth, stakes_for
from privcore.lower_bounds.betting import BLOCK, EPSILONS, Stakes
from privcore.lower_bounds.matched import (
    NIGHT_GAPS,
    NIGHT_STRATEGIES,
    REFERENCES,
    MatchedRecords,
    log_mean,
    log_wealth_of_tables,
    night_log_wealth,
    tables_log_wealth,
)
from tests.simulate import PURE
from tests.support.tiers import rest_slow

FREE = stakes_for(PURE, records=10, classes=2, control=10)
CAPPED = stakes_for(Claim(family=ApproxDP(), delta=1e-3), records=1_000, classes=2, control=200)


def table(records, right, control, control_right, offset=0.0):
    whole = [np.atleast_1d(np.array(n, dtype=np.int64)) for n in (records, right, control)]
    return Matched(
        *whole, np.atleast_1d(np.array(control_right)), np.zeros(np.size(records)) + offset
    )


def ceiling_of(tables, **doubted):
    design = MatchedRecords(tables, records=10, control=10, classes=2, **doubted)
    return design.epsilon_ceiling(FREE)


NOTHING = table([], [], [], [], np.zeros(0))
NOTHINGS = [NOTHING] * (len(SHARES) - 1)


def number_right(rates):
    """The distribution of how many of independent coins fall right."""
    law = np.ones(1)
    for rate in rates:
        law = np.convolve(law, [1.0 - rate, rate])
    return law


def arms_of(mean, size):
    """Rates of the same mean: all alike, as unequal as can be, half and half, and a mixture."""
    sure = math.floor(mean * size)
    rest = mean * size - sure
    yield np.full(size, mean)
    yield np.array([1.0] * sure + [rest] * (sure < size) + [0.0] * (size - sure - 1))[:size]
    spread = min(mean, 1.0 - mean)
    yield (
        np.where(np.arange(size) % 2, mean + spread, mean - spread)
        if size % 2 == 0
        else (np.full(size, mean))
    )
    random = np.random.default_rng(size)
    drawn = expit(logit(mean) + random.normal(0.0, 2.0, size))
    yield drawn * min(mean / drawn.mean(), 1.0 / drawn.max())


@pytest.mark.parametrize("stakes", [FREE, CAPPED], ids=["pure", "delta"])
@pytest.mark.parametrize(("records", "control"), [(1, 1), (4, 4), (9, 3), (3, 9), (12, 2)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_the_mean_over_every_outcome_is_at_most_one(stakes, records, control, epsilon, offset):
    """Exact: every pair of counts, weighed by independent coins whose means keep assumption E.

    The coins of the training records are raised from fresh draws' by e^epsilon, one by one, and the
    fresh draws' mean has at most e^offset times the odds of the control's.
    """
    wealth, nights = (
        np.array(
            [
                [
                    np.exp(of((table(records, right, control, held, offset), *NOTHINGS)))
                    for held in range(control + 1)
                ]
                for right in range(records + 1)
            ]
        )
        for of in (
            lambda tables: matched_log_wealth(tables, epsilon, stakes=stakes),
            lambda tables: night_log_wealth(tables, epsilons=np.array([epsilon]), stakes=stakes),
        )
    )
    largest = 0.0
    for mean in (0.02, 0.3, 0.5, 0.8, 0.99):
        fresh_mean = float(expit(logit(mean) + offset))
        for fresh in arms_of(fresh_mean, records):
            assert fresh.mean() <= fresh_mean + 1e-12
            raised = math.exp(epsilon) * fresh / (1.0 - fresh + math.exp(epsilon) * fresh)
            for held in arms_of(mean, control):
                law = number_right(raised)[:, None] * number_right(held)
                if held.mean() < mean - 1e-9:
                    continue  # the control must not be worse than the fresh draws
                expected = float((law * wealth).sum())
                assert expected <= 1.0 + 1e-12
                assert np.all(np.einsum("ij,ijse->s", law, nights) <= 1.0 + 1e-12)
                largest = max(largest, expected)
    # Equal rates reach it, so that nothing is given away: the mixture keeps no stake aside but
    # those of the two empty sets.
    assert largest > 1.0 - 1e-6


def normalizers(first, second, odds):
    """Every Z_t in exact arithmetic."""
    return [
        sum(
            math.comb(first, k) * math.comb(second, t - k) * odds**k
            for k in range(max(0, t - second), min(first, t) + 1)
        )
        for t in range(first + second + 1)
    ]


SMALL = [(first, second) for first in range(1, 9) for second in range(1, 9)]
_RANDOM = np.random.default_rng(1)
LARGE = [tuple(int(n) for n in _RANDOM.integers(1, 61, 2)) for _ in range(12)]


@pytest.mark.parametrize("odds", rest_slow([Fraction(1), Fraction(40), Fraction(3, 2)], always=2))
@pytest.mark.parametrize(
    "step", rest_slow([Fraction(101, 100), Fraction(400), Fraction(2)], always=2)
)
def test_the_evalue_grows_and_bends_upwards_in_either_count(odds, step):
    """Exact arithmetic, all tables up to 8 by 8 and 12 up to 60 by 60: step^k1 Z(odds)/Z(odds step)

    rises with k1, and its second differences in k1 and in k0 are at least 0: unequal rates within
    a stratum lower its mean (Hoeffding 1956).
    """
    for first, second in SMALL + LARGE:
        plain, raised = (normalizers(first, second, o) for o in (odds, odds * step))
        ratio = [a / b for a, b in zip(plain, raised, strict=True)]
        in_first = [r * step**t for t, r in enumerate(ratio)]  # up to a constant, along k1
        for t in range(1, first + second):
            assert ratio[t - 1] + ratio[t + 1] >= 2 * ratio[t]
            assert in_first[t - 1] + in_first[t + 1] >= 2 * in_first[t]
        for t in range(first + second):
            # One more right wins at most the whole step and never loses: what delta is paid for.
            assert ratio[t] >= ratio[t + 1]
            assert in_first[t + 1] >= in_first[t]


def example(right=700, control_right=60, surest_right=190):
    everyone = table([500, 500], [right // 2, right // 2], [120, 80], [control_right // 2] * 2)
    surest = table([200], [surest_right], [40], [20])
    return everyone, surest, *NOTHINGS[1:]


def test_one_more_right_never_multiplies_by_more_than_the_cap():
    """In one set or in all three: the factor right over wrong, for 300 random tables, seed 5."""
    random = np.random.default_rng(5)
    cap = CAPPED.log_cap(0.4)
    assert cap < 4.0 / math.sqrt(15.0)  # it binds in every table below
    for _ in range(300):
        records, control = (int(n) for n in random.integers(2, 60, 2))
        right, held = int(random.integers(0, records)), int(random.integers(0, control + 1))
        wrong_one = table(records, right, control, held)
        right_one = table(records, right + 1, control, held)
        for sets in (1, 3):
            before, after = (
                matched_log_wealth(
                    [one] * sets + [NOTHING] * (len(SHARES) - sets), 0.4, stakes=CAPPED
                )
                for one in (wrong_one, right_one)
            )
            assert 0.0 <= after - before <= cap + 1e-9


@pytest.mark.parametrize("stakes", [FREE, CAPPED], ids=["pure", "delta"])
def test_the_bound_is_the_last_point_before_the_first_that_is_not_rejected(stakes):
    """A naive twin walks the whole grid."""
    silent = example(right=300, surest_right=100)
    for tables in (example(), example(right=760), silent):
        reached = 0.0
        for epsilon in EPSILONS:
            wealth = matched_log_wealth(tables, float(epsilon), stakes=stakes)
            if wealth < stakes.log_needed(float(epsilon)):
                break
            reached = float(epsilon)
        assert matched_epsilon_lower(tables, stakes=stakes) == reached
    assert matched_epsilon_lower(example(right=760), stakes=stakes) > 0.0
    assert matched_epsilon_lower(silent, stakes=stakes) == 0.0


@pytest.mark.parametrize("neighbors", list(Relation))
@pytest.mark.parametrize("family", [PureDP(), ApproxDP(), Gaussian(1.0)], ids=str)
def test_what_is_claimed_is_a_point_of_its_own(family, neighbors):
    """Rejected, it is the bound or lies below it; not rejected, the bound lies below it."""
    delta, equal = 0.0 if isinstance(family, PureDP) else 1e-5, 0
    claim = Claim(family=family, delta=delta, neighbors=neighbors)
    free = stakes_for(claim, records=1_000, classes=2, control=200)
    for right in range(700, 780, 10):
        tables = example(right)
        reached = free.in_claim(matched_epsilon_lower(tables, stakes=free))
        assert reached > 0.1
        for step in (-0.004, 0.0, 0.001, 0.003, 0.007, 0.012):
            epsilon = reached + step
            stakes = dataclasses.replace(free, claim=dataclasses.replace(claim, epsilon=epsilon))
            bound = stakes.in_claim(matched_epsilon_lower(tables, stakes=stakes))
            at = stakes.replacement(epsilon)
            wealth = matched_log_wealth(tables, at, stakes=stakes)
            assert (bound >= epsilon) is (wealth >= stakes.log_needed(at))
            assert bound <= max(reached, epsilon)
            assert bound >= reached or at % BLOCK > BLOCK - 0.01  # one more point of its block
            equal += bound == epsilon > reached
    assert equal > 3  # the grid alone would not have refuted these claims


def made_stakes(caps, prices):
    """Stakes whose caps and prices are made up, block by block."""
    fill = [caps[-1]] * (56 - len(caps)), [prices[-1]] * (56 - len(prices))
    return Stakes(np.array(caps + fill[0]), np.array(prices + fill[1]), PURE, 0.0)


def test_what_one_block_does_not_reject_is_not_skipped_for_a_cheaper_one():
    """A night that rejects all but the last point of a dear block, and all of the next one."""
    tables = example(right=620, surest_right=120)
    wealth = {at: matched_log_wealth(tables, at, stakes=FREE) for at in (0.48, 0.49)}
    dear = 0.05 - math.exp(-0.5 * (wealth[0.48] + wealth[0.49]))
    stakes = made_stakes([math.inf, math.inf], [dear, 0.0])
    assert matched_epsilon_lower(tables, stakes=FREE) > 0.6
    assert matched_epsilon_lower(tables, stakes=stakes) == pytest.approx(0.48)


@pytest.mark.slow
def test_the_last_block_is_asked_like_every_other():
    """Nothing but the grid ends the bound; where the last block is too dear, it ends before."""
    shouting = [table(*([3 * 10**9] * 12 for _ in range(3)), [0] * 12), *NOTHINGS]
    wealth = matched_log_wealth(shouting, 27.5, stakes=FREE)
    assert wealth > 3.0
    assert matched_epsilon_lower(shouting, stakes=FREE) == EPSILONS[-1]
    prices = [0.0] * 55 + [0.05 - math.exp(-wealth - 1.0)]
    stakes = made_stakes([math.inf] * 56, prices)
    assert matched_epsilon_lower(shouting, stakes=stakes) == pytest.approx(27.49)


def test_the_ceiling_is_the_bound_of_predictions_all_right_and_never_below_the_bound():
    random = np.random.default_rng(7)
    for _ in range(20):
        tables = [
            table([400, 300], random.integers(100, 301, 2), [90, 60], random.integers(0, 61, 2))
            for _ in SHARES
        ]
        bound = matched_epsilon_lower(tables, stakes=FREE)
        ceiling = ceiling_of(tables)
        assert bound <= ceiling
        perfect = [
            Matched(one.records, one.records, one.control, one.control_right, one.offset)
            for one in tables
        ]
        assert ceiling == matched_epsilon_lower(perfect, stakes=FREE)
    few, many = (
        [table(5_000, 0, 12, 11)] * len(SHARES),
        [table(5_000, 0, 1_200, 1_100)] * len(SHARES),
    )
    assert ceiling_of(few) + 1.0 < ceiling_of(many)
    assert ceiling_of([table(5_000, 0, 12, 12)] * len(SHARES)) == 0.0


def test_what_is_always_rejected_ends_at_the_grids_end_and_nothing_proves_nothing():
    certain = [table(10**6, 10**6, 10**6, 0)] * len(SHARES)
    assert matched_epsilon_lower(certain, stakes=FREE) > 10.0
    assert matched_epsilon_lower([NOTHING] * len(SHARES), stakes=FREE) == 0.0
    assert matched_log_wealth([NOTHING] * len(SHARES), 0.3, stakes=FREE) == pytest.approx(
        0.0, abs=1e-12
    )
    nights = night_log_wealth([NOTHING] * len(SHARES), epsilons=np.array([0.0, 1.0]), stakes=FREE)
    assert np.array_equal(nights, np.zeros((NIGHT_STRATEGIES, 2)))


@pytest.mark.parametrize("stakes", [FREE, CAPPED], ids=["pure", "delta"])
def test_two_references_have_half_of_the_stake_each(stakes):
    """The mean of their e-values, and in nights strategies of each reference."""
    first = (table([40, 9], [30, 6], [10, 5], [5, 1]), table(8, 7, 4, 2), *NOTHINGS[1:])
    second = (table([30, 19], [28, 19], [9, 6], [2, 2]), *NOTHINGS)
    apart = [matched_log_wealth(one, 0.25, stakes=stakes) for one in (first, second)]
    together = matched_log_wealth(first + second, 0.25, stakes=stakes)
    assert together == pytest.approx(math.log(np.exp(apart).mean()), abs=1e-12)
    grid = np.array([0.25, 1.0])
    nights = [night_log_wealth(one, epsilons=grid, stakes=stakes) for one in (first, second)]
    both = night_log_wealth(first + second, epsilons=grid, stakes=stakes)
    assert np.array_equal(both, np.concatenate([nights[0][:EACH], nights[1][:EACH]]))


def log_wealth(tables, gap, epsilon):
    """The e-value of one gap, from the normalizers in exact arithmetic."""
    total = 0.0
    odds, step = Fraction(math.exp(epsilon)), Fraction(math.exp(gap))
    for records, right, control, held in zip(
        tables.records, tables.right, tables.control, tables.control_right, strict=True
    ):
        both = int(right + held)
        plain, raised = (
            normalizers(int(records), int(control), o)[both] for o in (odds, odds * step)
        )
        total += gap * right + math.log(plain / raised)
    return total


@pytest.mark.parametrize("stakes", [FREE, CAPPED], ids=["pure", "delta"])
def test_the_bets_of_a_night_are_those_that_were_fixed(stakes):
    """By hand: shares 0.65, 0.14 and three of 0.07; gaps 4, 8, 16, 32 over the root of the

    effective records, at most 6 and the cap, weights 0.3, 0.3, 0.25, 0.15; nights that multiply
    bet 2.5 and 10, and as a night alone.
    """
    sets = table([40, 9], [30, 6], [10, 5], [5, 1]), table(8, 7, 4, 2), *NOTHINGS[1:]
    effective = (40 * 10 / 50 + 9 * 5 / 14, 8 * 4 / 12)
    cap = min(6.0, stakes.log_cap(0.25))
    expected = 3 * 0.07
    for share, one, size in zip((0.65, 0.14), sets[:2], effective, strict=True):
        for units, weight in zip((4.0, 8.0, 16.0, 32.0), (0.3, 0.3, 0.25, 0.15), strict=True):
            gap = min(units / math.sqrt(size), cap)
            expected += share * weight * math.exp(log_wealth(one, gap, 0.25))
    found = matched_log_wealth(sets, 0.25, stakes=stakes)
    assert found == pytest.approx(math.log(expected), abs=1e-8)
    nights = night_log_wealth(sets, epsilons=np.array([0.25]), stakes=stakes)[:, 0]
    by_hand = [
        log_wealth(sets[0], min(units / math.sqrt(effective[0]), cap), 0.25)
        for units in (2.5, 10.0)
    ]
    by_hand.append(math.log(expected))
    # With one reference it stands for both.
    np.testing.assert_allclose(nights, by_hand * 2, atol=1e-8)
    mean = log_mean(np.array([0.0, math.log(3.0)]), np.array([1.0, 3.0]))
    assert mean == pytest.approx(math.log(2.5))


def test_bets_against_a_doubtful_proxy_may_lose_and_never_win():
    """An e-value against the proxy counts as 1 at most. The student's are as they were.

    The mean is at most what it was, so that what was valid stays valid.
    """
    found = [table(400, 380, 100, 50), *NOTHINGS]
    lost = [table(400, 120, 100, 50), *NOTHINGS]
    nothing = [NOTHING] * len(SHARES)
    for proxy in (found, lost):
        for student in (found, lost, nothing):
            tables = [*proxy, *student]
            for epsilon in (0.0, 1.0, 2.0):
                plain = matched_log_wealth(tables, epsilon, stakes=FREE)
                doubted = matched_log_wealth(tables, epsilon, stakes=FREE, proxy_doubtful=True)
                assert doubted <= plain + 1e-12
                if proxy is lost:
                    assert doubted == pytest.approx(plain, abs=1e-9)
    tables = [*found, *nothing]
    assert matched_epsilon_lower(tables, stakes=FREE) > 1.0
    assert matched_epsilon_lower(tables, stakes=FREE, proxy_doubtful=True) == 0.0
    assert ceiling_of(tables, proxy_doubtful=True) == 0.0
    second = [*nothing, *found]
    both = [matched_epsilon_lower(second, stakes=FREE, proxy_doubtful=doubtful)
            for doubtful in (False, True)]  # fmt: skip
    assert both[0] == both[1] > 1.0


EACH = NIGHT_STRATEGIES // REFERENCES
WEIGHTS = np.array([0.65 * weight for weight in (0.3, 0.3, 0.25, 0.15)] + [0.35])


def bets_of(one, epsilon):
    """The log e-values of a night's own bets on all records; the other shares keep their stake."""
    gaps = np.array([4.0, 8.0, 16.0, 32.0]) / math.sqrt(one.effective)
    return np.append(tables_log_wealth(one, np.array([epsilon]), gaps)[0], 0.0)


def test_a_night_against_a_doubtful_proxy_keeps_its_stake_at_most():
    tables = [table(400, 380, 100, 50), *NOTHINGS, table(400, 300, 100, 50), *NOTHINGS]
    epsilons = np.array([0.0, 0.5, 3.0])
    plain, doubted = (
        night_log_wealth(tables, epsilons=epsilons, stakes=FREE, proxy_doubtful=doubtful)
        for doubtful in (False, True)
    )
    assert plain[:EACH].max() > 1.0
    at_gaps = slice(len(NIGHT_GAPS))
    assert np.array_equal(doubted[at_gaps], np.minimum(plain[at_gaps], 0.0))
    assert np.array_equal(doubted[EACH:], plain[EACH:])
    # Each bet of a night's own is kept below 1 by itself, so that their mean may be less than 1.
    own = [log_mean(np.minimum(bets_of(tables[0], epsilon), 0.0), WEIGHTS) for epsilon in epsilons]
    np.testing.assert_allclose(doubted[len(NIGHT_GAPS)], own, atol=1e-12)


def test_tables_of_any_layout_are_bet_on_by_one_compiled_kernel():
    wide = np.array([[400, 380, 100, 50], [90, 60, 40, 20]])
    by_column = Matched(*wide.T, np.zeros((2, 3))[:, 0])
    compact = Matched(*wide.T.copy(), np.zeros(2))
    known = set(log_wealth_of_tables.signatures)
    ends = np.array([0.0, 9.0, 0.5])[::2], np.array([0.1])
    wealth = tables_log_wealth(by_column, *ends)
    assert np.array_equal(wealth, tables_log_wealth(compact, *ends))
    compiled = set(log_wealth_of_tables.signatures) - known
    assert {column.layout for signature in compiled for column in signature} <= {"C"}


TIGHT = 1e-9


def normalizer_ratio(first, second, right, log_odds, gap):
    """Return the wealth of one table of which none of the first arm is right: the ratio alone."""
    counts = (np.array([number]) for number in (first, 0, second, right))
    return log_wealth_of_tables(*counts, np.zeros(1), np.array([log_odds]), np.array([gap]))[0, 0]


def exact(first, second, right, log_odds, gap):
    """Return log Z(log_odds) - log Z(log_odds + gap), every term in 60 digits."""
    with mpmath.workdps(60):
        low, high = max(0, right - second), min(first, right)
        weights = [
            mpmath.binomial(first, k) * mpmath.binomial(second, right - k)
            for k in range(low, high + 1)
        ]

        def normalizer(a):
            return mpmath.fsum(
                weight * mpmath.exp(mpmath.mpf(a) * k)
                for k, weight in enumerate(weights, start=low)
            )

        at = normalizer(log_odds)
        raised = normalizer(mpmath.mpf(log_odds) + mpmath.mpf(gap))
        return float(mpmath.log(at / raised))


def assert_tight_from_below(first, second, right, log_odds, gap, expected):
    found = normalizer_ratio(first, second, right, log_odds, gap)
    # A double cannot tell numbers apart that lie closer than this.
    assert found <= expected + 4e-16 * abs(expected)
    assert found >= expected - TIGHT * max(1.0, abs(expected))


@pytest.mark.slow
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.data(),
    st.one_of(st.sampled_from([0.0, 0.01, 28.0]), st.floats(0.0, 28.0)),
    st.one_of(st.sampled_from([1e-6, 6.0]), st.floats(1e-6, 6.0)),
)
@settings(max_examples=200, deadline=None)
def test_the_ratio_is_exact_and_never_above_the_exact_one(first, second, data, log_odds, gap):
    right = data.draw(st.integers(0, first + second))
    expected = exact(first, second, right, log_odds, gap)
    assert_tight_from_below(first, second, right, log_odds, gap, expected)


@pytest.mark.parametrize("log_odds", rest_slow([0.0, 0.7, 3.0, 28.0], always=2))
@pytest.mark.parametrize("gap", rest_slow([1e-6, 0.02, 1.0, 6.0], always=2))
@pytest.mark.parametrize(
    ("first", "second", "right"),
    [(2_000, 500, 600), (2_000, 500, 2_499), (3, 4_000, 7), (30, 20, 25), (5, 90, 40)],
)
def test_tables_of_tens_and_of_thousands_are_as_exact(first, second, right, log_odds, gap):
    expected = exact(first, second, right, log_odds, gap)
    assert_tight_from_below(first, second, right, log_odds, gap, expected)


@pytest.mark.parametrize(
    ("first", "second", "right"),
    [(0, 5, 3), (5, 0, 3), (0, 0, 0), (7, 4, 0), (7, 4, 11), (10**8, 10**8, 0)],
)
def test_tables_of_one_outcome_win_nothing(first, second, right):
    only = max(0, right - second)
    for log_odds in (0.0, 28.0):
        for gap in (1e-6, 6.0):
            assert normalizer_ratio(first, second, right, log_odds, gap) == -gap * only


@pytest.mark.parametrize("log_odds", [0.0, 1.0, 28.0])
@pytest.mark.parametrize("gap", [1e-4, 0.01])
def test_a_hundred_million_records_keep_nine_digits(log_odds, gap):
    """The mean of k lies between: log Z is convex, so its slopes at both ends enclose the ratio.

    The slopes are the means of k, found by the mode's equation (exact to 1 of 10^7).
    """
    first, second, right = 10**8, 2 * 10**7, 5 * 10**7

    def mode(a):
        odds = math.exp(a)
        quadratic = odds - 1.0
        linear = -((first + right) * odds + second - right)
        constant = first * right * odds
        if abs(quadratic) < 1e-12:
            return -constant / linear
        root = math.sqrt(linear * linear - 4.0 * quadratic * constant)
        return 2.0 * constant / (-linear + root)

    found = normalizer_ratio(first, second, right, log_odds, gap)
    least, most = gap * (mode(log_odds) - 2.0), gap * (mode(log_odds + gap) + 2.0)
    assert -most <= found <= -least
    # Two halves of the gap together are the whole, to rounding.
    halves = normalizer_ratio(first, second, right, log_odds, gap / 2.0) + normalizer_ratio(
        first, second, right, log_odds + gap / 2.0, gap / 2.0
    )
    assert found == pytest.approx(halves, rel=1e-9)


def test_the_wealth_of_tables_is_the_product_of_each_with_its_own_offset():
    first, first_right = np.array([10, 30, 0]), np.array([7, 12, 0])
    second, second_right = np.array([8, 0, 5]), np.array([2, 0, 4])
    offset = np.array([0.0, 0.3, 1.0])
    log_odds, gaps = np.array([0.0, 0.5]), np.array([0.1, 0.7, 2.0])
    found = log_wealth_of_tables(first, first_right, second, second_right, offset, log_odds, gaps)
    assert found.shape == (2, 3)
    for i, a in enumerate(log_odds):
        for j, gap in enumerate(gaps):
            one = gap * 7 + normalizer_ratio(10, 8, 9, a, gap)
            # A table of one arm alone and an empty arm win and lose nothing.
            other = gap * 12 + normalizer_ratio(30, 0, 12, a + 0.3, gap)
            assert other == pytest.approx(0.0, abs=1e-9)
            assert found[i, j] == pytest.approx(one, abs=1e-9)
    granted = log_wealth_of_tables(
        first[:1], first_right[:1], second[:1], second_right[:1], np.array([0.2]), log_odds, gaps
    )
    moved = log_wealth_of_tables(
        first[:1], first_right[:1], second[:1], second_right[:1], np.zeros(1), log_odds + 0.2, gaps
    )
    np.testing.assert_allclose(granted, moved, rtol=1e-12)
    assert np.all(granted < found)

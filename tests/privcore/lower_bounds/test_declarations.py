"""The test that every declaration was true: exact errors, a walk by hand, and honest owners."""

import itertools

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_NIGHTS,
    Claim,
    ClaimedNight,
    declarations_refuted,
)
from privcore.lower_bounds.betting import DELTA_SHARE
from privcore.lower_bounds.matched import night_log_wealth
from tests.privcore.lower_bounds.test_windows import held_out, tables_and_stakes
from tests.simulate import assert_rate_at_most, randomized_response


def flat(wealth, price=0.0):
    return ClaimedNight(0.2, np.full(4, wealth), price)


def night(training, control, *, epsilon, delta, seed):
    """One night at its own claim, as `read_evidence` keeps it."""
    claim = Claim(family=ApproxDP() if delta else PureDP(), delta=delta, epsilon=epsilon)
    tables, stakes = tables_and_stakes(training, control, claim, seed=seed)
    at = np.array([stakes.replacement(epsilon)])
    wealth = night_log_wealth(tables, epsilons=at, stakes=stakes)[:, 0]
    return ClaimedNight(epsilon, wealth, float(stakes.prices.max()))


def world(truths, claims, random, *, delta=0.0, seed=0):
    """Nights of 400 training and 200 holdout records of randomized response, each at its claim."""
    return [
        night(
            randomized_response(400, truth, random),
            held_out(200, truth, random),
            epsilon=claim,
            delta=delta,
            seed=seed,
        )
        for truth, claim in zip(truths, claims, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_true_declarations_that_change_are_seldom_refuted(delta):
    """N = 60 standings of 9 nights: mechanism and declaration change together, exactly true."""
    random = np.random.default_rng(31)
    refuted = 0
    for number in range(60):
        truths = random.choice([0.25, 0.5, 1.0, 2.0], 9)
        nights = world(truths, truths, random, delta=delta, seed=number)
        refuted += bool(declarations_refuted(nights, significance=0.05)[-1])
    assert_rate_at_most(refuted, 60, 0.05)


@pytest.mark.slow
def test_declaring_less_after_an_improvement_is_not_held_against_older_nights():
    """N = 30: a mechanism of 2 under a declared 2 for five nights, of 0.5 under 0.5 afterwards."""
    random = np.random.default_rng(32)
    truths = [2.0] * 5 + [0.5] * 5
    refuted = sum(
        bool(declarations_refuted(world(truths, truths, random, seed=one), significance=0.05)[-1])
        for one in range(30)
    )
    assert_rate_at_most(refuted, 30, 0.05)


@pytest.mark.slow
def test_a_false_declaration_is_refuted_however_it_wiggles():
    """N = 10: a mechanism of 2 under 0.8, 0.9 and 0.800000001, or 50, in turn, seed 33."""
    random = np.random.default_rng(33)
    for claims in ([0.8] * 12, [0.8, 0.9, 0.800000001] * 4, [0.8, 50.0] * 6):
        found = [
            declarations_refuted(world([2.0] * 12, claims, random, seed=one))[-1]
            for one in range(5)
        ]
        assert all(found)


@pytest.mark.slow
def test_it_errs_at_most_at_its_significance():
    """Exact: all 2^12 ways that e-values may follow, of which each night has two of its own."""
    odds = [(0.1, 1.9), (0.5, 1.5), (0.9, 1.1), (0.0001, 1.9999)] * 3
    nights = [[flat(np.log(value)) for value in pair] for pair in odds]
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


def naive(levels, significance, length):
    """The stake after each night, summed over starts as it is written."""
    wealth = np.exp(levels)
    refuted, ever = [], False
    for last in range(len(levels)):
        total = 0.5 * wealth[: last + 1].prod(axis=0)
        for start in range(1, length):
            total = total + 0.5 / (length - 1) * wealth[start : last + 1].prod(axis=0)
        ever = ever or bool(total.mean() >= 1.0 / significance)
        refuted.append(ever)
    return refuted


@pytest.mark.slow
@pytest.mark.parametrize(("price", "length"), [(1e-9, WINDOW_NIGHTS), (0.0, STANDING_NIGHTS)])
def test_it_is_the_sum_over_starts_of_products(price, length):
    """Against the sum as it is written, on 60 random standings, seed 34."""
    random = np.random.default_rng(34)
    last = []
    for _ in range(60):
        levels = random.normal(-0.2, 1.5, (int(random.integers(1, WINDOW_NIGHTS + 1)), 4))
        left = 0.01 * ((1.0 - DELTA_SHARE) if price else 1.0)
        found = declarations_refuted([ClaimedNight(0.2, level, price) for level in levels])
        assert found.tolist() == naive(levels, left, length)
        last.append(found[-1])
    assert 5 < sum(last) < 55


def test_what_was_refuted_stays_so_and_quiet_nights_cost_nothing():
    quiet, loud = flat(-20.0), flat(np.log(254.0 / 0.01) + 1e-6)
    found = declarations_refuted([*[quiet] * 5, loud, *[quiet] * 3])
    assert found.tolist() == [False] * 5 + [True] * 4


def test_recurring_labels_are_not_multiplied():
    lucky = flat(np.log(100.0))
    assert declarations_refuted([lucky] * 9)[-1]
    assert not declarations_refuted([lucky] * 9, recurring=True).any()
    sure = flat(np.log(STANDING_NIGHTS / 0.01 * 1.01))
    assert declarations_refuted([lucky, sure], recurring=True).tolist() == [False, True]


def test_nights_that_delta_cannot_pay_for_refute_nothing():
    assert declarations_refuted([flat(50.0, 0.007)])[-1]
    assert not declarations_refuted([flat(0.0, 0.004), flat(50.0, 0.004)]).any()


def test_bad_input_is_refused():
    with pytest.raises(InvalidInputError, match="nights is 0"):
        declarations_refuted([])
    for other in (ClaimedNight(0.2, np.zeros(3), 0.0), ClaimedNight(0.2, np.zeros((4, 2)), 0.0)):
        with pytest.raises(InvalidInputError, match="the same strategies"):
            declarations_refuted([flat(0.0), other])
    with pytest.raises(InvalidInputError, match="a standing of their own"):
        declarations_refuted([flat(0.0), flat(0.0, 1e-6)])
    with pytest.raises(InvalidInputError, match="significance"):
        declarations_refuted([flat(0.0)], significance=1.5)
    for many in ([flat(0.0)] * (STANDING_NIGHTS + 1), [flat(0.0, 1e-6)] * (WINDOW_NIGHTS + 1)):
        with pytest.raises(InvalidInputError, match="begin a new one"):
            declarations_refuted(many)

"""Size and power of the game's bounds for every choice of fractions, with one replay and with 100.

Each test counts how often a bound exceeds the truth over N simulated audits and judges the count
with an exact binomial test at level 1e-6 (`tests.simulate.JUDGING_LEVEL`). Each also has a floor of
power, so that "always zero" fails too. N and seeds are stated.
"""

import math

import numpy as np
import pytest

from privcore.attacks import LogRatioScore, ScoredRecords, generator, unit_records, unit_tallies
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, Gaussian
from privcore.lower_bounds import (
    Claim,
    Fixed,
    Grid,
    Steinke,
    best_epsilon,
    choice_epsilon_lower,
)
from privcore.lower_bounds.claims import guess_counts
from privcore.lower_bounds.game_evidence import lower_median
from tests.simulate import (
    PURE,
    assert_rate_at_most,
    believed,
    gaussian_label,
    play,
    randomized_response,
    unrelated,
)
from workers.plan import Plan

CHOICES = {"grid": Grid(), "fixed": Fixed(0.2)}
SLOW = pytest.mark.slow
GAUSSIAN = Claim(family=Gaussian(), delta=1e-5)


def bound(world, random, *, choice, repetitions, claim=PURE, audit=0):
    """The bound of one audit."""
    tally = play(*world(random), random, repetitions=repetitions, score=LogRatioScore())
    return choice_epsilon_lower(tally, claim=claim, choice=CHOICES[choice], random=generator(audit))


@pytest.mark.parametrize(
    ("repetitions", "audits"), [(1, 150), (100, 40), pytest.param(100, 300, marks=SLOW)]
)
@pytest.mark.parametrize("choice", CHOICES)
def test_no_choice_proves_anything_where_nothing_leaks(choice, repetitions, audits):
    """N = 150 and 40 audits of 300 records, slow 300; seed 50."""
    random = np.random.default_rng(50)
    errors = sum(
        bound(
            lambda random: unrelated(300, random),
            random,
            choice=choice,
            repetitions=repetitions,
            audit=audit,
        )
        > 0.0
        for audit in range(audits)
    )
    assert_rate_at_most(errors, audits, PURE.significance)


@pytest.mark.parametrize(("repetitions", "choice"), [(1, "grid"), (100, "fixed")])
@pytest.mark.parametrize(
    ("claim", "truth", "floor"),
    [
        (PURE, 2.0, 0.5),
        (Claim(family=ApproxDP(), delta=1e-5), 2.0, 0.5),
        (GAUSSIAN, Gaussian(1.0).epsilon_at(delta=1e-5), 0.12),
    ],
)
@SLOW
def test_every_choice_covers_the_truth_and_finds_much_of_it(
    claim, truth, floor, choice, repetitions
):
    """N = 60 audits of 3,000 records, seed 51; floors: shares of the truth, on average.

    `test_validity.py` has the grid at other truths.
    """
    random = np.random.default_rng(51)

    def world(random):
        if claim is GAUSSIAN:
            return gaussian_label(3_000, 1.0, random)
        return randomized_response(3_000, 2.0, random)

    bounds = [
        bound(world, random, choice=choice, repetitions=repetitions, claim=claim, audit=audit)
        for audit in range(60)
    ]
    assert_rate_at_most(int(np.sum(np.array(bounds) > truth)), 60, claim.significance)
    assert np.mean(bounds) > floor * truth


def steinke(tally, seed):
    """Steinke's bound at one fraction, as `choice_epsilon_lower` corrects for replays."""
    guesses = guess_counts(tally.records, (0.2,))
    correct = tally.most_confident(guesses, generator(seed))
    return lower_median(
        best_epsilon(
            tally.records,
            np.broadcast_to(guesses, correct.shape),
            correct,
            family=Steinke(),
            delta=1e-5,
            significance=0.05 / (2.0 if tally.repetitions > 1 else 1.0),
        )
    )


@pytest.mark.parametrize("repetitions", [1, 20])
def test_steinkes_bound_is_silent_without_a_leak_and_covers_with_one(repetitions):
    """Randomized response at 1 and nothing, 1,000 records, N = 100 each, seed 52."""
    random = np.random.default_rng(52)
    bounds = {}
    for name, world in (
        ("nothing", lambda: unrelated(1_000, random)),
        ("response", lambda: randomized_response(1_000, 1.0, random)),
    ):
        tallies = (
            play(*world(), random, repetitions=repetitions, score=LogRatioScore())
            for _ in range(100)
        )
        bounds[name] = np.array([steinke(tally, seed) for seed, tally in enumerate(tallies)])
    assert_rate_at_most(int(np.sum(bounds["nothing"] > 0.0)), 100, 0.05)
    assert_rate_at_most(int(np.sum(bounds["response"] > 1.0)), 100, 0.05)
    assert bounds["response"].mean() > 0.15


@pytest.mark.parametrize(("epsilon", "repetitions"), [(0.0, 1), (2.0, 100)])
@SLOW
def test_persons_with_100_records_each_are_covered_by_bets_and_every_choice(epsilon, repetitions):
    """One answer per person tells all 100 labels, which are alike; N = 200 of 200 people, seed 53.

    At epsilon 2 the game and the bets find some of it; at 0 they find nothing.
    """
    random = np.random.default_rng(53)
    bounds = []
    for audit in range(200):
        people = randomized_response(200, epsilon, random, priors=(0.3,))
        world = [np.repeat(arm, 100, axis=0) for arm in people]
        units = unit_records(ScoredRecords(*world, audit), np.arange(20_000) // 100, unit_key=audit)
        tallies = unit_tallies(
            units, units, score=LogRatioScore(), repetitions=repetitions, key=audit
        )
        bounds.append(
            [believed((units.moved.target, units.moved.proxy, units.moved.labels))]
            + [
                choice_epsilon_lower(tallies.game, claim=PURE, choice=choice, random=generator(0))
                for choice in CHOICES.values()
            ]
        )
    for errors in np.sum(np.array(bounds) > epsilon, axis=0):
        assert_rate_at_most(int(errors), 200, PURE.significance)
    if epsilon:
        assert np.all(np.mean(bounds, axis=0) > [0.8, 0.2, 0.05])


def test_the_fractions_that_nobody_names_are_those_of_the_documents():
    assert Grid().fractions == (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    assert Plan().fractions == Grid().fractions


@pytest.mark.parametrize("fractions", [(), (0.0,), (0.1, 1.0 + 1e-9), (-0.1, 0.5), (math.nan,)])
def test_a_fraction_that_is_none_is_refused(fractions):
    with pytest.raises(InvalidInputError, match=r"each lies in \(0, 1\] and there is one"):
        Grid(fractions)


@pytest.mark.parametrize(
    ("records", "fraction", "guesses"),
    [
        (0, 0.5, 0),
        (1, 0.001, 1),
        (999, 0.001, 1),
        (2_000, 0.001, 2),
        (2_999, 0.001, 2),
        (10, 1, 10),
    ],
)
def test_a_fraction_is_so_many_guesses(records, fraction, guesses):
    assert guess_counts(records, (fraction,)).tolist() == [guesses]

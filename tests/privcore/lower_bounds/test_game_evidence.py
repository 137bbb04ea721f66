"""The game's evidence against a naive twin, and its size and power by choice of fractions.

Rates are judged with an exact binomial test at level 1e-6, and each bound has a floor of power.
"""

import dataclasses
import functools
import math
import statistics

import numpy as np
import pytest
from scipy.special import expit

from privcore.attacks import LogRatioScore, ScoredRecords, generator, unit_records, unit_tallies
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import Claim, Grid, choice_epsilon_lower, claim_pvalue, epsilon_lower
from privcore.lower_bounds.claims import guess_counts
from privcore.lower_bounds.game_evidence import PAPER_FRACTIONS, game_evidence, paper_epsilons
from tests.simulate import (
    PURE,
    assert_rate_at_most,
    believed,
    gaussian_label,
    play,
    randomized_response,
    unrelated,
)
from tests.support.refusals import refused
from workers.plan import Plan

CHOICE = Grid((0.05, 0.4, 1.0))
CLAIM = Claim(PureDP(), 0.0, significance=0.06, epsilon=0.9)


def tally(repetitions, records=400):
    random = np.random.default_rng(3)
    world = randomized_response(records, 2.5, random)
    return play(*world, random, repetitions=repetitions, score=LogRatioScore())


def lower_median(values):
    return float(np.sort(values)[(len(values) - 1) // 2])


def right(game, choice):
    """Numbers of guesses, and how many of them are right in each repetition."""
    guesses = guess_counts(game.records, choice.fractions)
    return guesses, game.most_confident(guesses, generator(7))


def evidence_of(game, claim=CLAIM, choice=CHOICE):
    return game_evidence(game, claim=claim, choice=choice, paper_delta=1e-5, random=generator(7))


@pytest.mark.parametrize("repetitions", [1, 2, 5])
@pytest.mark.parametrize("choice", [CHOICE, Grid((0.05, 0.4)), Grid((0.4,))])
def test_a_corrected_bound_is_the_lower_median_of_the_best_fraction(repetitions, choice):
    game = tally(repetitions)
    guesses, correct = right(game, choice)
    each = 0.06 / (len(choice.fractions) * (1 if repetitions == 1 else 2))
    best = [
        max(
            epsilon_lower(400, int(made), int(hits), family=PureDP(), delta=0.0, significance=each)
            for made, hits in zip(guesses, row, strict=True)
        )
        for row in correct
    ]
    assert lower_median(best) > 0.0
    bound = choice_epsilon_lower(game, claim=CLAIM, choice=choice, random=generator(7))
    assert bound == pytest.approx(lower_median(best), abs=1e-7)
    sure = dataclasses.replace(CLAIM, significance=0.01)
    assert bound > choice_epsilon_lower(game, claim=sure, choice=choice, random=generator(7))


@pytest.mark.parametrize("repetitions", [1, 2, 5])
def test_a_pvalue_is_of_the_strongest_fraction_of_each_repetition(repetitions):
    game = tally(repetitions)
    guesses, correct = right(game, CHOICE)
    allowed = expit(0.2)
    each = []
    for row in correct:
        spread = np.sqrt(guesses * allowed * (1.0 - allowed))
        strongest = int(np.argmax((row - guesses * allowed) / spread))
        counts = int(guesses[strongest]), int(row[strongest])
        each.append(claim_pvalue(400, *counts, guarantee=PureDP(0.2)))
    halves = 1.0 if repetitions == 1 else 2.0
    found = evidence_of(game, dataclasses.replace(CLAIM, epsilon=0.2)).claim_pvalue
    assert found == pytest.approx(halves * 3.0 * sorted(each)[len(each) // 2], rel=1e-9)
    assert 0.0 < found < 0.2


def test_of_nothing_surprising_the_pvalue_is_one_and_undeclared_there_is_none():
    for epsilon, pvalue in ((8.0, 1.0), (None, None)):
        claim = dataclasses.replace(CLAIM, epsilon=epsilon)
        assert evidence_of(tally(3), claim).claim_pvalue == pvalue


def test_the_ceiling_is_what_all_guesses_right_would_prove():
    for neighbors, steps in ((Relation.REPLACE, 1), (Relation.ADD_REMOVE, 2)):
        claim = dataclasses.replace(CLAIM, neighbors=neighbors)
        evidence = evidence_of(tally(2), claim)
        best = max(
            epsilon_lower(400, made, made, family=PureDP(), delta=0.0, significance=0.01)
            for made in (20, 160, 400)
        )
        assert evidence.epsilon_ceiling == pytest.approx(best / steps, abs=1e-7)


def test_each_family_at_each_fraction_is_bounded_at_its_share():
    game = tally(4)
    guesses, correct = right(game, CHOICE)
    claim = dataclasses.replace(CLAIM, shift=0.001)
    evidence = evidence_of(game, claim)
    assert evidence.records == 400
    assert len(evidence.bounds) == 9
    for family in (ApproxDP(), PureDP(), Gaussian()):
        # A pure claim has delta 0, at which a Gaussian guarantee has no epsilon.
        delta = 1e-5 if isinstance(family, Gaussian) else 0.0
        of_family = [bound for bound in evidence.bounds if bound.family == family.name]
        for place, bound in enumerate(of_family):
            assert (bound.fraction, bound.guesses) == (CHOICE.fractions[place], guesses[place])
            assert bound.correct == statistics.mean(correct[:, place].tolist())
            given = {"family": family, "delta": delta, "significance": 0.01, "shift": 0.001}
            each = [
                epsilon_lower(400, bound.guesses, int(hits), **given) for hits in correct[:, place]
            ]
            twin = lower_median(each)
            assert bound.epsilon_lower == pytest.approx(twin, abs=1e-7)
    pure = [bound for bound in evidence.bounds if bound.family == "pure_dp"]
    assert evidence.best_fraction == max(pure, key=lambda one: one.epsilon_lower).fraction


def test_a_gaussian_claim_is_bounded_at_its_own_delta():
    claim = Claim(Gaussian(), 1e-3, significance=0.06)
    evidence = evidence_of(tally(1), claim, Grid((0.4,)))
    (bound,) = [one for one in evidence.bounds if one.family == "gaussian"]
    assert bound.epsilon_lower == pytest.approx(evidence.epsilon_lower, abs=1e-7)


def test_where_nothing_is_proved_there_is_no_best_fraction():
    random = np.random.default_rng(5)
    game = play(*randomized_response(60, 0.0, random), random, repetitions=2)
    claim = dataclasses.replace(CLAIM, significance=0.01)
    evidence = evidence_of(game, claim)
    assert evidence.epsilon_lower == 0.0
    assert evidence.best_fraction is None


def test_the_papers_figure_is_the_best_of_a_hundred_fractions_uncorrected():
    game = tally(3)
    found = paper_epsilons(game, claim=CLAIM, delta=1e-4, random=generator(7))
    guesses = guess_counts(400, tuple(percent / 100.0 for percent in range(1, 101)))
    correct = game.most_confident(guesses, generator(7))
    assert len(PAPER_FRACTIONS) == 100
    for value, row in zip(found, correct, strict=True):
        each = [
            epsilon_lower(400, int(n), int(k), family=Gaussian(), delta=1e-4, significance=0.06)
            for n, k in zip(guesses, row, strict=True)
        ]
        assert value == pytest.approx(max(each), abs=1e-6)
    evidence = game_evidence(
        game, claim=CLAIM, choice=Grid((0.4,)), paper_delta=1e-4, random=np.random.default_rng(2)
    )
    assert 0.5 * found.mean() < evidence.epsilon_paper < 2.0 * found.mean()
    assert evidence.epsilon_paper_deviation == pytest.approx(found.std(), abs=0.2)


CHOICES = {"grid": Grid(), "fixed": Grid((0.2,))}
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
    given = {"choice": choice, "repetitions": repetitions}
    world = functools.partial(unrelated, 300)
    errors = sum(bound(world, random, audit=audit, **given) > 0.0 for audit in range(audits))
    assert_rate_at_most(errors, audits, PURE.significance)


@pytest.mark.parametrize(("repetitions", "choice"), [(1, "grid"), (100, "fixed")])
@pytest.mark.parametrize(
    ("claim", "strength", "floor"),
    [
        *((PURE, *pair) for pair in ((0.5, 0.1), (1.0, 0.4), (2.0, 0.5), (4.0, 0.4))),
        (Claim(family=ApproxDP(), delta=1e-5), 2.0, 0.5),
        *((GAUSSIAN, mu, 0.12) for mu in (0.5, 1.0, 2.0)),
    ],
)
@SLOW
def test_every_choice_covers_the_truth_and_finds_much_of_it(
    claim, strength, floor, choice, repetitions
):
    """N = 60 audits of 3,000 records, seed 51; floors: shares of the truth, on average."""
    random = np.random.default_rng(51)
    truth = Gaussian(strength).epsilon_at(delta=1e-5) if claim is GAUSSIAN else strength

    of = gaussian_label if claim is GAUSSIAN else randomized_response
    world = functools.partial(of, 3_000, strength)
    given = {"choice": choice, "repetitions": repetitions, "claim": claim}
    bounds = [bound(world, random, audit=audit, **given) for audit in range(60)]
    assert_rate_at_most(int(np.sum(np.array(bounds) > truth)), 60, claim.significance)
    assert np.mean(bounds) > floor * truth


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
    refused(r"each lies in \(0, 1\] and there is one", Grid, fractions)


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

"""Proof from one arm's tally of the label-inference game."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.attacks import Tally
from privcore.guarantees import ApproxDP, Family, Gaussian, PureDP
from privcore.lower_bounds.claims import Claim, guess_counts
from privcore.lower_bounds.fdp import best_epsilon, check_significance, claim_pvalue, epsilon_lower
from privcore.lower_bounds.question import Grid

PAPER_FRACTIONS = tuple(percent / 100.0 for percent in range(1, 101))


@dataclass(frozen=True, slots=True)
class FractionBound:
    """The bound of one family at one guess fraction.

    `epsilon_lower` is what this fraction adds to the corrected grid: the lower median over
    repetitions at significance/(2 K). `correct` is the mean over repetitions.
    """

    family: str
    fraction: float
    guesses: int
    correct: float
    epsilon_lower: float


@dataclass(frozen=True, slots=True)
class GameEvidence:
    """Results of one arm of the game; NaN, and no bounds, where no repetition was played.

    Attributes:
        records: records that played.
        epsilon_lower: corrected for fractions and repetitions; valid at the claim's significance,
            and like the ceiling in the claim's relation.
        epsilon_paper: the paper's own figure, mean over repetitions of the best of 1..100% guesses
            in the Gaussian family. Not corrected: it exceeds the truth far more often than its
            significance says, and stands here for comparison only.
        epsilon_paper_deviation: its standard deviation over repetitions.
        epsilon_ceiling: what a perfect attack on as many records could have proved.
        claim_pvalue: twice the median over repetitions of the Bonferroni p-value of the declared
            guarantee; None where nothing was declared.
        best_fraction: the fraction whose bound is the largest; None where none proves anything.
        bounds: every family at every fraction, for replacing a label.
    """

    records: int
    epsilon_lower: float
    epsilon_paper: float
    epsilon_paper_deviation: float
    epsilon_ceiling: float
    claim_pvalue: float | None
    best_fraction: float | None
    bounds: tuple[FractionBound, ...]


def game_evidence(
    tally: Tally, *, claim: Claim, choice: Grid, paper_delta: float, random: np.random.Generator
) -> GameEvidence:
    """Read a tally as evidence against `claim`.

    Args:
        tally: of the training records, or of the control.
        claim: family, delta, significance, shift.
        choice: the guess fractions.
        paper_delta: delta of the paper's figure.
        random: the audit's stream, for the border bins.

    Raises:
        InvalidInputError: a claim that makes no sense, or an empty tally.
    """
    check_significance(claim.significance)
    if tally.repetitions == 0:
        return GameEvidence(tally.records, math.nan, math.nan, math.nan, math.nan, None, None, ())
    each = _each_significance(claim.significance, choice, tally)
    guesses = guess_counts(tally.records, choice.fractions)
    correct = tally.most_confident(guesses, random)
    paper = paper_epsilons(tally, claim=claim, delta=paper_delta, random=random)
    bound = partial(epsilon_lower, tally.records, significance=each, shift=claim.shift)
    bounds = tuple(
        _fraction_bound(fraction, int(made), correct[:, column], claim, family, bound)
        for family in (ApproxDP(), PureDP(), Gaussian())
        for column, (fraction, made) in enumerate(zip(choice.fractions, guesses, strict=True))
    )
    fitting = [one for one in bounds if one.family == claim.family.name]
    best = max(fitting, key=lambda one: one.epsilon_lower)

    def all_right(delta: float) -> float:
        return max(bound(n, n, family=claim.family, delta=delta) for n in guesses.tolist())

    return GameEvidence(
        records=tally.records,
        epsilon_lower=_corrected(tally, guesses, correct, claim, each),
        epsilon_paper=float(paper.mean()),
        epsilon_paper_deviation=float(paper.std()),
        epsilon_ceiling=claim.epsilon_of(all_right),
        claim_pvalue=_claim_pvalue(tally, guesses, correct, claim),
        best_fraction=best.fraction if best.epsilon_lower > 0.0 else None,
        bounds=bounds,
    )


def choice_epsilon_lower(
    tally: Tally, *, claim: Claim, choice: Grid, random: np.random.Generator
) -> float:
    """Return the game's bound under a choice of fractions, corrected for fractions and replays.

    The best of K fractions at significance/(2K) each exceeds the true epsilon in one repetition
    with probability at most significance/2 (union bound). All repetitions share one trained model,
    so they are not independent; but if the lower median exceeds it, at least half of them do, and
    by Markov's inequality that has probability at most significance. With one repetition nothing
    is halved, with one fraction nothing divided.
    """
    guesses = guess_counts(tally.records, choice.fractions)
    correct = tally.most_confident(guesses, random)
    each = claim.significance * _each_significance(1.0, choice, tally)
    return _corrected(tally, guesses, correct, claim, each)


def paper_epsilons(
    tally: Tally, *, claim: Claim, delta: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the paper's figure per repetition: the best of 1..100% guesses, not corrected."""
    guesses = guess_counts(tally.records, PAPER_FRACTIONS)
    correct = tally.most_confident(guesses, random)
    return best_epsilon(
        tally.records,
        np.broadcast_to(guesses, correct.shape),
        correct,
        family=Gaussian(),
        delta=delta,
        significance=claim.significance,
    )


def lower_median(values: NDArray[np.float64]) -> float:
    """Return the lower of the two middle values, so that at least half are as large."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _corrected(
    tally: Tally, guesses: NDArray[np.int64], correct: NDArray[np.int64], claim: Claim, each: float
) -> float:
    if guesses.size == 1:
        # The bound grows with the count, so the median's bound is the bounds' median.
        correct = np.sort(correct, axis=0)[(len(correct) - 1) // 2][:, None]

    def bound(delta: float) -> float:
        best = best_epsilon(
            tally.records,
            np.broadcast_to(guesses, correct.shape),
            correct,
            family=claim.family,
            delta=delta,
            significance=each,
            shift=claim.shift,
        )
        return lower_median(best)

    return claim.epsilon_of(bound)


def _claim_pvalue(
    tally: Tally, guesses: NDArray[np.int64], correct: NDArray[np.int64], claim: Claim
) -> float | None:
    guarantee = claim.guarantee()
    if guarantee is None or claim.epsilon is None:
        return None
    # Of each repetition only the fraction that looks strongest is tested; the Bonferroni p-value
    # of the least of all can only be smaller, so this one is valid too.
    allowed = expit(claim.epsilon)
    surprise = (correct - guesses * allowed) / np.sqrt(guesses * allowed * (1.0 - allowed) + 1e-9)
    strongest = np.argmax(surprise, axis=1)
    shown = np.stack([guesses[strongest], correct[np.arange(len(strongest)), strongest]], axis=1)
    # Repetitions of few records often come to the same counts.
    counts, places = np.unique(shown, axis=0, return_inverse=True)
    each = [
        claim_pvalue(tally.records, made, right, guarantee=guarantee, shift=claim.shift)
        for made, right in counts.tolist()
    ]
    pvalues = np.array(each)[places.ravel()]
    halves = 2.0 if tally.repetitions > 1 else 1.0
    upper_median = np.sort(pvalues)[len(pvalues) // 2]
    return float(min(1.0, halves * guesses.size * upper_median))


def _each_significance(significance: float, choice: Grid, tally: Tally) -> float:
    halves = 2 if tally.repetitions > 1 else 1
    return significance / (halves * len(choice.fractions))


def _fraction_bound(
    fraction: float,
    guesses: int,
    correct: NDArray[np.int64],
    claim: Claim,
    family: Family,
    bound: Callable[..., float],
) -> FractionBound:
    # The bound grows with correct, so the lower median of the bounds is the bound of the lower
    # median: one search instead of one per repetition.
    median = int(lower_median(correct.astype(np.float64)))
    delta = claim.delta if claim.delta > 0.0 or not isinstance(family, Gaussian) else 1e-5
    proved = bound(guesses, median, family=family, delta=delta)
    return FractionBound(family.name, fraction, guesses, float(correct.mean()), proved)

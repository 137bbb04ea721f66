"""The figures of "Observational Auditing of Privacy", of three attacks on the same two models.

Members are training records, non-members holdout records; half of the holdout is the population
that RMIA and the loss's threshold need, the other half plays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.study.drawing import Point, colored, points_of
from flows.study.tables import CellRow
from privcore.attacks import (
    CalibratedLossScore,
    PaperScore,
    RmiaScore,
    Tally,
    generator,
    label_inference,
    membership_inference,
    stream_key,
)
from privcore.guarantees import ApproxDP, Gaussian
from privcore.lower_bounds import Claim, Grid, best_epsilon, choice_epsilon_lower
from privcore.lower_bounds.choices import guess_counts
from privcore.lower_bounds.game_evidence import PAPER_FRACTIONS, paper_epsilons
from workers.plan import Plan

REPETITIONS, DELTA, SIGNIFICANCE, SEED = 100, 1e-5, 0.05, 715
LABELS, PAIRS = "label inference, all records", "label inference, as many as pairs"
MEMBERSHIP = ("calibrated loss", "RMIA")
ATTACK_COLORS = colored((LABELS, PAIRS, *MEMBERSHIP), "red orange blue green")
FIGURE = "{epsilon_paper:.2f} ± {epsilon_paper_deviation:.2f}"
"""A row's figure as the paper writes it."""
FIXED = 0.01
"""The guess fraction of the paper's Table 6, which is not chosen by its outcome."""
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Both models' answers on some records.

    Attributes:
        target: shape (records, classes).
        proxy: shape (records, classes).
        labels: shape (records,), class indices.
    """

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.labels)

    @property
    def accuracy(self) -> float:
        """Share of records whose label the target finds most probable."""
        return float((self.target.argmax(axis=1) == self.labels).mean())

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return the answers on some of the records."""
        return Answers(self.target[rows], self.proxy[rows], self.labels[rows])

    def own(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' probability of each record's own label, shape (records,)."""
        rows = np.arange(self.records)
        target, proxy = self.target[rows, self.labels], self.proxy[rows, self.labels]
        return np.clip(target, _SMALLEST, 1.0), np.clip(proxy, _SMALLEST, 1.0)


def play_all(train: Answers, holdout: Answers) -> dict[str, Tally]:
    """Return each attack's tally: of all training records, and of as many as there are pairs."""
    members, outsiders, population = pairs_of(train, holdout)
    target, reference = population.own()
    # What the target does better on all records, members or not, is no membership.
    threshold = float(np.median(np.log(target) - np.log(reference)))

    def calibrated(part: Answers) -> NDArray[np.float64]:
        return CalibratedLossScore(threshold)(*(-np.log(chances) for chances in part.own()))

    def outdone(part: Answers) -> NDArray[np.float64]:
        return RmiaScore()(*part.own(), population_target=target, population_reference=reference)

    def pairs(name: str, score: Callable[[Answers], NDArray[np.float64]]) -> Tally:
        key = stream_key(SEED, "members", name)
        scores = (score(members), score(outsiders))
        return membership_inference(*scores, repetitions=REPETITIONS, key=key)

    loss_name, rmia_name = MEMBERSHIP
    return {
        LABELS: play_label_inference(train),
        PAIRS: play_label_inference(members),
        loss_name: pairs("loss", calibrated),
        rmia_name: pairs("rmia", outdone),
    }


def play_label_inference(answers: Answers) -> Tally:
    """Return label inference's tally of some records."""
    return label_inference(
        answers.target,
        answers.proxy,
        answers.labels,
        score=PaperScore(),
        repetitions=REPETITIONS,
        key=stream_key(SEED, "labels", answers.records),
    )


def pairs_of(train: Answers, holdout: Answers) -> tuple[Answers, Answers, Answers]:
    """Return members, as many non-members, and the population: the rest of the holdout."""
    random = generator(SEED, "pairs", train.records)
    many = min(holdout.records // 2, train.records)
    shuffled = random.permutation(holdout.records)
    members = train.take(random.permutation(train.records)[:many])
    return members, holdout.take(shuffled[:many]), holdout.take(shuffled[many:])


def attack_figures(tally: Tally) -> CellRow:
    """Return the paper's figure (uncorrected) and the corrected bound, both at delta 1e-5."""
    random = generator(SEED, "border")
    claim = Claim(family=ApproxDP(), delta=DELTA, significance=SIGNIFICANCE)
    paper = paper_epsilons(tally, claim=claim, delta=DELTA, random=random)
    return {
        "epsilon_paper": float(paper.mean()),
        "epsilon_paper_deviation": float(paper.std()),
        "epsilon_lower": choice_epsilon_lower(tally, claim=claim, choice=Grid(), random=random),
        "accuracy": float(tally.correct.sum() / tally.guesses.sum()),
    }


def paper_figures(answers: Answers, *, plan: Plan, canaries: int, name: str) -> CellRow:
    """Return mean and deviation of the best of 1..100% guesses, and of a fixed 1%.

    Sections 6.2 and E: Gaussian family, not corrected for the choice among 100 fractions. Which
    records play is drawn once; coins and counterfactuals are drawn again in each repetition.

    Args:
        answers: of both models on the audited model's training records.
        plan: its power, repetitions, significance, delta and seed.
        canaries: how many records play; all where there are fewer.
        name: of the random stream.
    """
    random = generator(plan.seed, name, "canaries")
    chosen = np.sort(random.permutation(answers.records)[:canaries])
    played = answers.take(chosen)
    tally = label_inference(
        played.target,
        played.proxy,
        played.labels,
        score=PaperScore(power=plan.power),
        repetitions=plan.repetitions,
        key=stream_key(plan.seed, name, "paper's protocol"),
        indices=chosen,
    )
    shares = np.arange(1, 101) / 100.0
    guesses = np.maximum(1, np.round(shares * tally.records)).astype(np.int64)
    correct = tally.most_confident(guesses, random)
    guesses = np.broadcast_to(guesses, correct.shape)
    best, fixed = (
        best_epsilon(
            tally.records,
            guesses[:, part],
            correct[:, part],
            family=Gaussian(),
            delta=plan.delta,
            significance=plan.significance,
        )
        for part in (slice(None), shares == FIXED)
    )
    return {
        "canaries": len(chosen),
        "epsilon_paper": float(best.mean()),
        "epsilon_paper_deviation": float(best.std()),
        "epsilon_fixed": float(fixed.mean()),
        "epsilon_fixed_deviation": float(fixed.std()),
    }


def figure_points(rows: Sequence[CellRow], x: str, series: str, panel: str) -> list[Point]:
    """Return the paper's figure of each row, with its deviation; see `points_of`."""
    error = {"epsilon_paper": "epsilon_paper_deviation"}
    return points_of(rows, x, {"epsilon_paper": series}, error=error, panel=panel)


def figure_ceiling(records: int, fractions: tuple[float, ...] = PAPER_FRACTIONS) -> float:
    """Return the paper's figure of an attack on so many records that is always right."""
    guesses = guess_counts(records, fractions)[np.newaxis]
    best = best_epsilon(
        *(records, guesses, guesses), family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
    )
    return float(best[0])

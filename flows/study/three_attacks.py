"""Label inference, calibrated loss and RMIA on the same two models, as arrays of their answers.

Members are training records, non-members holdout records; half of the holdout is the population
that RMIA and the loss's threshold need, the other half plays.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flows.study.cells import CellRow
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

REPETITIONS, DELTA, SIGNIFICANCE, SEED = 100, 1e-5, 0.05, 715
LABELS, PAIRS = "label inference, all records", "label inference, as many as pairs"
MEMBERSHIP = ("calibrated loss", "RMIA")
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

    def take(self, rows: NDArray[np.int64]) -> "Answers":
        """Return the answers on some of the records."""
        return Answers(self.target[rows], self.proxy[rows], self.labels[rows])

    def own(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both models' probability of each record's own label, shape (records,)."""
        rows = np.arange(self.records)
        target, proxy = self.target[rows, self.labels], self.proxy[rows, self.labels]
        return np.clip(target, _SMALLEST, 1.0), np.clip(proxy, _SMALLEST, 1.0)

    def beside(self, proxy: NDArray[np.float64]) -> "Answers":
        """Return the same with another proxy."""
        return replace(self, proxy=proxy)


def play_all(train: Answers, holdout: Answers) -> dict[str, Tally]:
    """Return each attack's tally: of all training records, and of as many as there are pairs."""
    members, outsiders, population = pairs_of(train, holdout)
    own = {"members": members.own(), "outsiders": outsiders.own(), "population": population.own()}
    # What the target does better on all records, members or not, is no membership.
    threshold = float(np.median(_gain(*own["population"])))
    loss, rmia = CalibratedLossScore(threshold), RmiaScore()

    def calibrated(name: str) -> NDArray[np.float64]:
        return loss(-np.log(own[name][0]), -np.log(own[name][1]))

    def outdone(name: str) -> NDArray[np.float64]:
        given = {
            "population_target": own["population"][0],
            "population_reference": own["population"][1],
        }
        return rmia(*own[name], **given)

    def pairs(score: str, in_: NDArray[np.float64], out: NDArray[np.float64]) -> Tally:
        key = stream_key(SEED, "members", score)
        return membership_inference(in_, out, repetitions=REPETITIONS, key=key)

    loss_name, rmia_name = MEMBERSHIP
    return {
        LABELS: play_label_inference(train),
        PAIRS: play_label_inference(members),
        loss_name: pairs("loss", calibrated("members"), calibrated("outsiders")),
        rmia_name: pairs("rmia", outdone("members"), outdone("outsiders")),
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


def figure_of(row: CellRow) -> str:
    """Return a row's figure as the paper writes it."""
    return f"{row['epsilon_paper']:.2f} ± {row['epsilon_paper_deviation']:.2f}"


def figure_ceiling(records: int, fractions: tuple[float, ...] = PAPER_FRACTIONS) -> float:
    """Return the paper's figure of an attack on so many records that is always right."""
    guesses = guess_counts(records, fractions)[np.newaxis]
    best = best_epsilon(
        *(records, guesses, guesses), family=Gaussian(), delta=DELTA, significance=SIGNIFICANCE
    )
    return float(best[0])


def _gain(target: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the amount by which the target's loss lies below the reference's."""
    return np.asarray(np.log(target) - np.log(reference))

"""From which night on honest models are `not_refuted`, and their drills refuted: statistics.md.

    python -m tests.benchmarks.conclusive_nights [--nights 40] [--series 100] [--rows 300 877 ...]

Each night has new rows of one world, of which a fifth is held out at random. Training reads labels
through randomized response at the declared epsilon, so no declaration is false; the drill is the
same learner on the same rows with their own labels. A cell draws series of nights from a pool and
says in what share of them the model's nights together are `not_refuted` after 1, 7, 28 and 90
nights, in how many the declaration is refuted (falsely), and in what share the drill is refuted.
Seeds are [62, rows, 0] and on; pools of 20,000 rows have a third of the nights.
"""

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from flows.study.exam_worlds import log_odds_of, response, rows_of
from privcore.lower_bounds import (
    Arm,
    ClaimedNight,
    ImaginedNight,
    audit_probabilities,
    conclusive,
    declarations_refuted,
    sees_from_together,
)

SIZES, CLAIMS, NIGHTS = (300, 877, 3_000, 20_000), (0.5, 1.0, 2.0, 4.0), (1, 7, 28, 90)
_LEVEL = 0.01


def _boosted(leaves: int, rounds: int, least: int) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(
        n_estimators=rounds, num_leaves=leaves, min_child_samples=least, n_jobs=1, verbose=-1
    )


LEARNERS = {
    "logistic regression": lambda: LogisticRegression(max_iter=500),
    "boosted": lambda: _boosted(31, 100, 20),
    "boosted, overfit": lambda: _boosted(255, 300, 1),
}


@dataclass(frozen=True, slots=True)
class Night:
    """What one audit leaves, of the model and of its drill."""

    claimed: ClaimedNight
    drill: ClaimedNight
    imagined: ImaginedNight | None
    sees_from: float | None
    ceiling: float
    refuted: bool


def night(learner: str, rows: int, epsilon: float, seed: int) -> Night:
    """Return one night of a model that keeps its declaration, and of its drill."""
    random = np.random.default_rng([62, rows, seed])
    truth = log_odds_of(random)
    before, (features, labels), held = (
        rows_of(truth, many, random) for many in (rows, rows, rows // 4)
    )
    shown = response(labels, epsilon, random)
    proxy = LEARNERS["logistic regression"]().fit(*before)

    def audited(read: NDArray[np.int64]):
        model = LEARNERS[learner]().fit(features, read)
        arms = (
            Arm(model.predict_proba(some), proxy.predict_proba(some), known, some)
            for some, known in ((features, labels), held)
        )
        return audit_probabilities(*arms, epsilon_declared=epsilon)

    kept, dropped = audited(shown), audited(labels)
    power = kept.evidence.power
    return Night(
        kept.evidence.claimed_night,
        dropped.evidence.claimed_night,
        power.imagined,
        power.sees_from,
        kept.epsilon_ceiling,
        kept.verdict == "violated",
    )


def shares(pool: Sequence[Night], epsilon: float, series: int) -> list[tuple[float, float, float]]:
    """Return shares not refuted, falsely refuted, and of drills refuted, after each of `NIGHTS`."""
    random = np.random.default_rng([62, len(pool)])
    counts = np.zeros((len(NIGHTS), 3))
    for _ in range(series):
        drawn = [pool[one] for one in random.integers(len(pool), size=NIGHTS[-1])]
        refuted, drills = (
            declarations_refuted([getattr(one, name) for one in drawn], significance=_LEVEL)
            for name in ("claimed", "drill")
        )
        for place, nights in enumerate(NIGHTS):
            some = [one.imagined for one in drawn[:nights] if one.imagined is not None]
            seen = sees_from_together(some, significance=_LEVEL) if len(some) == nights else None
            figures = [leak for leak in (seen, drawn[nights - 1].sees_from) if leak is not None]
            false = refuted[nights - 1] or drawn[nights - 1].refuted
            concluded = conclusive(
                epsilon,
                epsilon_ceiling=max(one.ceiling for one in drawn[:nights]),
                sees_from=min(figures, default=None),
            )
            counts[place] += concluded and not false, false, drills[nights - 1]
    return [tuple(row) for row in counts / series]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nights", type=int, default=40)
    arguments.add_argument("--series", type=int, default=100)
    arguments.add_argument("--rows", type=int, nargs="+", default=SIZES)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    heads = "learner | rows | declared | not refuted after 1, 7, 28, 90 | drill refuted | falsely"
    print(f"| {heads} |")  # noqa: T201
    print("| --- | ---: | ---: | --- | --- | --- |")  # noqa: T201
    for learner in LEARNERS:
        for rows in given.rows:
            many = given.nights if rows < SIZES[-1] else given.nights // 3
            for epsilon in CLAIMS:
                pool = [night(learner, rows, epsilon, seed) for seed in range(many)]
                found = shares(pool, epsilon, given.series)
                cells = (", ".join(f"{row[which]:.2f}" for row in found) for which in (0, 2, 1))
                print(f"| {learner} | {rows:,} | {epsilon:g} | {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""Bounds of one day beside bounds of a week: days matched by day, and pooled.

    python -m tests.benchmarks.days

Weeks of randomized response (at 20 every label is remembered) whose base rates drift by day, by a
standard deviation of 0.5 in log-odds that the proxy does not know; a fifth of the rows is held out.
"""

import functools
import operator
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import expit

from privcore.attacks import OddsTally, match, odds_tally
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, matched_epsilon_lower, stakes_for
from tests.simulate import two_columns

_DAYS, _WEEKS = 7, 20
_CLAIM = Claim(PureDP(), 0.0, significance=0.04, epsilon=1.0)


def _days_of(
    rows: int, epsilon: float, random: np.random.Generator
) -> Iterator[tuple[OddsTally, OddsTally]]:
    """Yield each day's training and holdout odds."""
    for _ in range(_DAYS):
        drift, known = random.normal(0.0, 0.5), random.normal(0.0, 1.0, rows)
        chance = expit(known + drift)
        labels = (random.random(rows) < chance).astype(np.int64)
        held = random.random(rows) < 0.2
        told = np.where(random.random(rows) < expit(epsilon), labels, 1 - labels)
        learned = expit(known + drift + np.where(told == 1, epsilon, -epsilon))
        target = two_columns(np.where(held, chance, learned))
        proxy = two_columns(expit(known))
        yield tuple(odds_tally(target[arm], proxy[arm], labels[arm]) for arm in (~held, held))  # type: ignore[misc]


def _bound(training: Sequence[OddsTally], control: Sequence[OddsTally], seed: int) -> float:
    stakes = stakes_for(_CLAIM, records=sum(odds.records for odds in training), classes=2)
    tables = match(training, control, random=np.random.default_rng(seed))
    return matched_epsilon_lower(tables, stakes=stakes)


def _pooled(odds: Sequence[OddsTally]) -> tuple[OddsTally]:
    return (functools.reduce(operator.add, odds),)


def main() -> None:
    """Print the mean bounds of 20 weeks each."""
    sys.stdout.write(
        "| rows a day | epsilon | one day | 7 days, matched by day | 7 days, pooled |\n"
    )
    for rows in (100, 500, 2000):
        for epsilon in (2.0, 4.0, 20.0):
            bounds = []
            for seed in range(_WEEKS):
                random = np.random.default_rng([rows, int(epsilon), seed])
                training, control = zip(*_days_of(rows, epsilon, random), strict=True)
                ways = (
                    (training[:1], control[:1]),
                    (training, control),
                    (_pooled(training), _pooled(control)),
                )
                bounds.append([_bound(*arms, seed) for arms in ways])
            means = " | ".join(f"{mean:.2f}" for mean in np.mean(bounds, axis=0))
            sys.stdout.write(f"| {rows:,} | {epsilon:g} | {means} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

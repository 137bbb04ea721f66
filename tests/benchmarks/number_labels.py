"""Bounds for numeric labels: by above or below the proxy's prediction, and by other classes.

    python -m tests.benchmarks.number_labels

Audits of 5,000 rows of the days of `tests.number_worlds`, 100 each: matched by the proxy's
prediction, matched by nothing, and with other classes, the quantiles of yesterday's labels, whose
chances both models give by a density of what the holdout leaves of their predictions.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from privcore.attacks import match, odds_tally
from privcore.lower_bounds import matched_epsilon_lower, stakes_for
from tests.number_worlds import CLAIM, Day, Numbers, bound, numbers, uneven

_AUDITS, _ROWS = 100, 5_000
_CLIP = 3.0

Training = Callable[[np.random.Generator], Day]


def _remembers(random: np.random.Generator, day: Day, share: float = 0.9) -> Day:
    """Return the day with a target that predicts a share of what is left of training labels."""
    del random
    labels, proxy, target, held = day
    return labels, proxy, target + np.where(held, 0.0, share * (labels - target)), held


def _side(random: np.random.Generator, day: Day, epsilon: float) -> Day:
    """Return it with a target that tells sides by randomized response."""
    labels, proxy, target, held = day
    told = (labels > proxy) == (random.random(labels.size) < expit(epsilon))
    return labels, proxy, np.where(held, target, proxy + np.where(told, 1.0, -1.0)), held


def _laplace(random: np.random.Generator, day: Day, epsilon: float) -> Day:
    """Return it with a target that tells clipped labels with Laplace noise."""
    labels, proxy, target, held = day
    noise = random.laplace(0.0, 2.0 * _CLIP / epsilon, labels.size)
    return labels, proxy, np.where(held, target, np.clip(labels, -_CLIP, _CLIP) + noise), held


_TRAINING: dict[str, Training] = {
    "remembers no label; right proxy": lambda random: numbers(random, _ROWS),
    "none; drift that it learned": lambda random: numbers(random, _ROWS, drift=0.7),
    "none; skewed, a poor proxy": lambda random: numbers(random, _ROWS, skewed=True, poor=1.0),
    "none; uneven holdout, right proxy": lambda random: uneven(random, _ROWS),
    "none; uneven holdout, poor proxy": lambda random: uneven(random, _ROWS, poor=0.1),
    "none; uneven holdout, drift": lambda random: uneven(random, _ROWS, drift=4.0),
    **{
        f"the side by randomized response at epsilon {epsilon:g}": lambda random, epsilon=epsilon: (
            _side(random, numbers(random, _ROWS), epsilon)
        )
        for epsilon in (1.0, 2.0, 4.0)
    },
    **{
        f"Laplace noise on labels clipped to [-3, 3], epsilon {epsilon:g}": (
            lambda random, epsilon=epsilon: _laplace(random, numbers(random, _ROWS), epsilon)
        )
        for epsilon in (1.0, 4.0, 16.0)
    },
    "predicts 0.9 of what is left of each label": lambda random: _remembers(
        random, numbers(random, _ROWS)
    ),
    "the same, drift that it learned": lambda random: _remembers(
        random, numbers(random, _ROWS, drift=0.7)
    ),
    "the same, skewed, a poor proxy": lambda random: _remembers(
        random, numbers(random, _ROWS, skewed=True, poor=1.0)
    ),
    "the same, uneven holdout, poor proxy": lambda random: _remembers(
        random, uneven(random, _ROWS, poor=0.1)
    ),
}


def quantile_bound(day: Day, yesterday: Numbers, classes: int, seed: int) -> float:
    """Return the headline of classes that are quantiles of yesterday's labels."""
    labels, proxy, target, held = day
    edges = np.unique(np.quantile(yesterday, np.arange(1, classes) / classes))
    told = np.searchsorted(edges, labels)
    models = [_chances(model, (labels - model)[held], edges) for model in (target, proxy)]
    training, control = (
        odds_tally(models[0][arm], models[1][arm], told[arm]) for arm in (~held, held)
    )
    stakes = stakes_for(CLAIM, records=training.records, classes=len(edges) + 1)
    random = np.random.default_rng(seed)
    return matched_epsilon_lower(match([training], [control], random=random), stakes=stakes)


def _chances(predicted: Numbers, left: Numbers, edges: Numbers) -> Numbers:
    """Return each class's chance where so much is left of a prediction, never 0."""
    below = [np.searchsorted(np.sort(left), edge - predicted, side="right") for edge in edges]
    counts = np.diff([np.zeros(predicted.size), *below, np.full(predicted.size, left.size)], axis=0)
    return (counts.T + 0.5) / (left.size + 0.5 * len(counts))


def main() -> None:
    """Print mean bounds, and how many of a hundred were above 0."""
    ways = ("matched by prediction", "by nothing", "2 quantiles", "4", "8")
    sys.stdout.write(f"| training | {' | above 0 | '.join(ways)} | above 0 |\n")
    sys.stdout.write("| --- |" + " --- | --- |" * len(ways) + "\n")
    for name, training in _TRAINING.items():
        found: list[list[float]] = []
        for seed in range(_AUDITS):
            day = labels, proxy, target, held = training(np.random.default_rng(seed))
            yesterday = training(np.random.default_rng(_AUDITS + seed))[0]
            sides = [
                bound(target, proxy, labels, held, seed, ordered=ordered)
                for ordered in (True, False)
            ]
            found.append(
                sides + [quantile_bound(day, yesterday, classes, seed) for classes in (2, 4, 8)]
            )
        cells = [f"{np.mean(each):.2f} | {np.count_nonzero(each)}" for each in np.transpose(found)]
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

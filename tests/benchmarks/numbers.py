"""What is proved of labels that are numbers: of records matched by the proxy's prediction, and not.

    python -m tests.benchmarks.numbers

Audits of 5,000 rows of the days of `tests.number_worlds`, 100 each.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from tests.number_worlds import Day, bound, numbers, uneven

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


def main() -> None:
    """Print mean bounds, and how many of a hundred were above 0."""
    sys.stdout.write("| training | matched by prediction | above 0 | by nothing | above 0 |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- |\n")
    for name, training in _TRAINING.items():
        cells = []
        for ordered in (True, False):
            found = []
            for seed in range(_AUDITS):
                labels, proxy, target, held = training(np.random.default_rng(seed))
                found.append(bound(target, proxy, labels, held, seed, ordered=ordered))
            cells += [f"{np.mean(found):.2f}", str(sum(one > 0.0 for one in found))]
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The figures that "Observational Auditing of Privacy" prints, from what two models answer."""

import numpy as np
from numpy.typing import NDArray

from flows.study.cells import CellRow
from privcore.attacks import PaperScore, Tally, generator, label_inference, stream_key
from privcore.guarantees import Gaussian
from privcore.lower_bounds import epsilon_lower
from workers.plan import Plan

FIXED = 0.01
"""The guess fraction of the paper's Table 6, which is not chosen by its outcome."""


def paper_figures(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    plan: Plan,
    canaries: int,
    name: str,
) -> CellRow:
    """Return mean and deviation of the best of 1..100% guesses, and of a fixed 1%.

    Sections 6.2 and E: Gaussian family, not corrected for the choice among 100 fractions. Which
    records play is drawn once; coins and counterfactuals are drawn again in each repetition.

    Args:
        target: shape (records, classes), what the audited model says of its training records.
        proxy: shape (records, classes).
        labels: shape (records,), class indices.
        plan: its power, repetitions, significance, delta and seed.
        canaries: how many records play; all where there are fewer.
        name: of the random stream.
    """
    random = generator(plan.seed, name, "canaries")
    chosen = np.sort(random.permutation(len(labels))[:canaries])
    tally = label_inference(
        target[chosen],
        proxy[chosen],
        labels[chosen],
        score=PaperScore(power=plan.power),
        repetitions=plan.repetitions,
        key=stream_key(plan.seed, name, "paper's protocol"),
        indices=chosen,
    )
    shares = np.arange(1, 101) / 100.0
    bounds = _bounds(tally, shares, plan, random)
    best, fixed = bounds.max(axis=1), bounds[:, shares == FIXED]
    return {
        "canaries": len(chosen),
        "epsilon_paper": float(best.mean()),
        "epsilon_paper_deviation": float(best.std(ddof=1)),
        "epsilon_fixed": float(fixed.mean()),
        "epsilon_fixed_deviation": float(fixed.std(ddof=1)),
    }


def _bounds(
    tally: Tally, shares: NDArray[np.float64], plan: Plan, random: np.random.Generator
) -> NDArray[np.float64]:
    """Bounds, shape (repetitions, shares); each pair of counts is solved for once."""
    guesses = np.maximum(1, np.round(shares * tally.records)).astype(np.int64)
    correct = tally.most_confident(guesses, random)
    pairs = np.stack([np.broadcast_to(guesses, correct.shape), correct], axis=-1)
    distinct, place = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    solved = [
        epsilon_lower(
            tally.records,
            int(made),
            int(right),
            family=Gaussian(),
            delta=plan.delta,
            significance=plan.significance,
        )
        for made, right in distinct
    ]
    return np.array(solved)[place].reshape(correct.shape)

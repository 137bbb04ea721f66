"""Holdout labels that are the target's own answers, seen by a jump where the answer turns.

Labels follow a model's log-odds without a jump, however wrong these are: a probability that is too
sure, or not sure enough, bends the curve. Of labels that were replaced by the model's answers the
share of ones jumps where its log-odds change their sign.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.attacks.logistic_regression import RIDGE, fit_logistic
from privcore.attacks.odds import OddsTally

COPIED = 4.5
"""Standard errors above which labels look copied. Chance alone gets there once in 300,000."""
MOST_RECORDS = 2_000
"""A curve that is no parabola on either side would look like a jump in any number of records."""

_LEAST_RECORDS = 10


def answer_jump(odds: OddsTally) -> float:
    """Return by how many standard errors labels jump where the target's answer turns.

    Labels are regressed by logistic regression on the proxy's log-odds, the side of 0 that these
    are on, and a parabola of the target's on either side. The answer is the score test of the side
    that the target's are on. A decision that followed the proxy's answer and changed labels
    honestly is explained by the proxy's side. Errors are as large as the labels of equal answers
    scatter about what is fitted with the jump: a single tree has few answers and no parabola. It is
    as of 2,000 records where there are more, and 0 where either side of the target has fewer
    than 10.

    Args:
        odds: of the holdout, two classes.

    *Does not say* that no label was copied: labels that are drawn from the target's probabilities
    have no jump.
    """
    cells = odds.cells()
    ones, counts = cells.ones.astype(np.float64), (cells.ones + cells.zeros).astype(np.float64)
    side = (cells.target > 0.0).astype(np.float64)
    above, records = float(counts @ side), float(counts.sum())
    if min(above, records - above) < _LEAST_RECORDS or not 0 < ones.sum() < records:
        return 0.0
    scaled = cells.target / np.abs(cells.target).max()
    curves = (scaled, scaled**2, side * scaled, side * scaled**2)
    others = (np.ones(side.size), cells.proxy, (cells.proxy > 0.0).astype(np.float64))
    design = np.stack([*others, *curves], axis=1)
    chance = _fitted(design, ones, counts)
    weight = counts * chance * (1.0 - chance)
    within = design.T @ (weight * side)
    curvature = (design.T * weight) @ design + RIDGE * np.eye(design.shape[1])
    variance = float(weight @ side) - float(within @ np.linalg.solve(curvature, within))
    if variance <= RIDGE:
        return 0.0
    score = float(side @ (ones - counts * chance))
    with_jump = np.column_stack([design, side])
    spread = _spread(cells.target, ones, counts, _fitted(with_jump, ones, counts), with_jump)
    return score / math.sqrt(variance * spread * max(1.0, records / MOST_RECORDS))


def copied_sentence(jump: float) -> str:
    """Return that labels may be the target's answers, where they jump as these do; else ""."""
    if jump <= COPIED:
        return ""
    return (
        "Labels of holdout records jump where the target's answer turns "
        f"({jump:.1f} standard errors), as labels do that were replaced by its answers. Then the "
        "holdout looks remembered, too, and a small bound concludes nothing. Decisions that follow "
        "the target's answers do so honestly: see who writes the labels of the holdout."
    )


def _spread(
    answers: NDArray[np.float64],
    ones: NDArray[np.float64],
    counts: NDArray[np.float64],
    chance: NDArray[np.float64],
    design: NDArray[np.float64],
) -> float:
    """Return how much more the labels of equal answers scatter than by chance, at least 1."""
    _, place = np.unique(answers, return_inverse=True)
    beyond = np.bincount(place, ones - counts * chance)
    expected = float((counts * chance * (1.0 - chance)).sum())
    free = beyond.size - design.shape[1]
    if free <= 0:
        return math.inf  # any labels of so few answers would be fitted
    more = beyond @ beyond / max(expected, RIDGE) * beyond.size / free
    return max(1.0, float(more))


def _fitted(
    design: NDArray[np.float64], ones: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the probabilities of a logistic regression of cells' labels."""
    sign = np.repeat([1.0, -1.0], ones.size)
    both, weights = np.concatenate([design, design]), np.concatenate([ones, counts - ones])
    return np.asarray(expit(design @ fit_logistic(both, sign, weights)))

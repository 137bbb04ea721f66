"""A reference model as the target sees it: one logistic fit, which reads no label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks.odds import OddsCells


@dataclass(frozen=True, slots=True)
class Recalibration:
    """The proxy as the target sees it: log-odds intercept + slope times the proxy's.

    (0, 1) is a proxy that the target agrees with on average.
    """

    intercept: float
    slope: float

    def apply(self, log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the recalibrated log-odds."""
        return self.intercept + self.slope * log_odds

    def moved(self, cells: OddsCells) -> NDArray[np.float64]:
        """Return by how much the target moved the probability of the class, with its sign.

        The size says how sure the prediction is: labels tell most of a leak where the probability
        moved far.
        """
        return np.asarray(expit(cells.target) - expit(self.apply(cells.proxy)))

    def granted(self, log_odds: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return by what, in log-odds, one record may be likelier than another: it is granted."""
        return self.apply(log_odds), log_odds


def recalibrate(arms: Sequence[OddsCells]) -> Recalibration:
    """Fit the target's probability on the proxy's log-odds, over the records of both arms.

    A logistic regression on the target's probabilities, not on labels; held by a normal penalty of
    unit variance near (0, 1), the slope at least 0. Both arms enter alike: a fit that reads the
    holdout alone would treat the arms differently, and the tables would be hypergeometric only
    approximately where nothing leaks.
    """
    proxy = np.concatenate([cells.proxy for cells in arms])
    mean = expit(np.concatenate([cells.target for cells in arms]))
    made = np.concatenate([cells.made for cells in arms]).astype(np.float64)
    design = np.stack([np.ones_like(proxy), proxy], axis=1)
    centre = np.array([0.0, 1.0])
    fitted = centre.copy()
    for _ in range(50):
        chance = expit(design @ fitted)
        gradient = design.T @ (made * (mean - chance)) - (fitted - centre)
        curvature = (design.T * (made * chance * (1.0 - chance))) @ design + np.eye(2)
        step = np.clip(np.linalg.solve(curvature, gradient), -1.0, 1.0)
        fitted += step
        if np.abs(step).max() < 1e-9:
            break
    if fitted[1] < 0.0:
        return Recalibration(float(logit(np.average(mean, weights=made))), 0.0)
    return Recalibration(float(fitted[0]), float(fitted[1]))

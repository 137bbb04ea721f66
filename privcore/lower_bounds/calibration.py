"""How often a name is right without memorisation, read from records that training never saw.

A proxy is never quite right: yesterday's model knows less about today than today's labels do. What
the target learned that holds for *everybody* is no leak about anyone. The control names labels of
held-out records, where nothing can have been memorised, and how often it is right, by proxy and
lift, is the prior to grant to the adversary on training records.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from privcore.attacks.lifts import LiftCells, LiftTally


@dataclass(frozen=True, slots=True)
class PriorFit:
    """Log-odds of a named label without memorisation: intercept + slope * prior + pull * lift.

    (0, 1, 0) is a proxy that is right. `pull` is what the target knows about labels that it never
    saw; both slopes are at least 0, so the fit is monotone.
    """

    intercept: float = 0.0
    slope: float = 1.0
    pull: float = 0.0

    def apply(self, cells: LiftCells) -> LiftCells:
        """Return the cells with the fitted prior.

        A bound with it is an estimate. It is exact where training records are as often right as
        control records of the same prior and lift, so where nothing leaks. Where training leaks,
        part of a training record's lift is its own label's doing, so it is less often right for
        reasons that hold for everybody than a control record with that lift: the fit grants the
        adversary too much, and the bound errs downwards.
        """
        fitted = self.intercept + self.slope * cells.prior + self.pull * cells.lift
        return LiftCells(fitted, cells.lift, cells.wrong, cells.right)

    def raise_prior(self, cells: LiftCells) -> LiftCells:
        """Return the cells with the proxy's prior or the fitted one, whichever is larger.

        A bound with it is a theorem wherever the proxy is right, whatever the fit, and never more
        than the estimate that the fit alone would give.
        """
        fitted = self.apply(cells)
        prior = np.maximum(cells.prior, fitted.prior)
        return LiftCells(prior, cells.lift, cells.wrong, cells.right)


def fit_prior(control: LiftTally) -> PriorFit:
    """Fit the prior on records that training never saw.

    Logistic regression of "the name was right" on the proxy's log-odds and on the lift, held by a
    normal penalty of unit variance near (0, 1, 0), so that few records move it little.
    """
    cells = control.cells()
    design = np.stack([np.ones_like(cells.prior), cells.prior, cells.lift], axis=1)
    centre = np.array([0.0, 1.0, 0.0])

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        odds = design @ parameters
        away = parameters - centre
        made = cells.right + cells.wrong
        value = np.sum(made * np.logaddexp(0.0, odds) - cells.right * odds) + 0.5 * away @ away
        gradient = design.T @ (made * expit(odds) - cells.right) + away
        return float(value), gradient

    bounds = [(None, None), (0.0, None), (0.0, None)]
    fitted = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x
    return PriorFit(*(float(value) for value in fitted))

"""Logistic regression of few columns, for tests of what labels say."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

RIDGE = 1e-6
"""Weight of the squared coefficients: a fit exists where columns tell the labels."""
_STEPS = 60
_LONGEST_STEP = 5.0
_CONVERGED = 1e-8


def fit_logistic(
    design: NDArray[np.float64],
    sign: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    ridge: float = RIDGE,
) -> NDArray[np.float64]:
    """Return the coefficients, shape (columns,), by Newton's method.

    Args:
        design: shape (rows, columns).
        sign: shape (rows,), 1 for a label that is one, -1 for one that is not.
        weights: shape (rows,), how many records each row stands for.
        ridge: weight of half the squared coefficients.
    """
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        margin = sign * (design @ found)
        gradient = design.T @ (weights * sign * expit(-margin)) - ridge * found
        curvature = (design.T * (weights * expit(margin) * expit(-margin))) @ design
        step = np.linalg.solve(curvature + ridge * np.eye(found.size), gradient)
        longest = float(np.abs(step).max())
        found = found + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < _CONVERGED:
            break
    return found

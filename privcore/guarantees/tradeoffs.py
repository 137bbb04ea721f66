"""Trade-off functions as numba kernels: the inverse F of x -> 1 - f(x), for every family.

`f(x)` is the least type-II error of a test with type-I error `x` that tells two neighbouring
outputs apart (Dong, Roth and Su 2022, arXiv:1905.02383). Every F here is convex with F(0) = 0 and
F(x) <= x, and falls as the privacy parameter grows; the searches in `privcore.lower_bounds` rest
on these three facts, and a property test holds each F to them.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.guarantees.normal import normal_cdf, normal_quantile

GAUSSIAN, APPROX_DP, LAPLACE, TABLE = range(4)


class Kernel(NamedTuple):
    """One trade-off function as plain numbers, so that one compiled kernel serves all families.

    `parameter` is mu or epsilon, whichever the kind has; `delta` counts for APPROX_DP alone, the
    knots for TABLE alone.
    """

    kind: int
    parameter: float
    delta: float
    knots_x: NDArray[np.float64]
    knots_y: NDArray[np.float64]


NO_KNOTS = np.zeros(2)


@njit(cache=True)
def inverse(
    kind: int,
    parameter: float,
    delta: float,
    knots_x: NDArray[np.float64],
    knots_y: NDArray[np.float64],
    x: float,
) -> float:
    """F(x) for x in [0, 1]: the type-I error at which power `x` is reached at best."""
    if kind == GAUSSIAN:
        return normal_cdf(normal_quantile(x) - parameter)
    if kind == APPROX_DP:
        low = (x - delta) * math.exp(-parameter)
        high = 1.0 - delta - (1.0 - x) * math.exp(parameter)
        return max(0.0, low, high)
    if kind == LAPLACE:
        shrink = math.exp(-parameter)
        if x < 0.5:
            return shrink * x
        if x <= 1.0 - 0.5 * shrink:
            return shrink / (4.0 * (1.0 - x))
        return 1.0 - (1.0 - x) / shrink
    return np.interp(x, knots_x, knots_y)

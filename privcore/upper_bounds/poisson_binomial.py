"""The exact distribution of how many independent events, each with its own probability, occur."""

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.special import betainc

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked

# Below this a probability is dropped, which keeps the recursion clear of slow subnormal numbers.
_NEGLIGIBLE = 1e-290


def poisson_binomial_tail(probabilities: ArrayLike) -> Floats:
    """Return P[S >= v] for v = 0, ..., n + 1, where S sums n independent Bernoulli variables.

    By recursion over the variables, which only adds and multiplies positive numbers: each value
    is right to a relative error of about n 1e-16, tails included, unlike that of a Fourier
    transform. Values below 1e-290 are 0. Time grows like n times the width of the distribution:
    under a second for 100,000 variables.

    Args:
        probabilities: shape (n,), in [0, 1].

    Returns:
        Shape (n + 2,), non-increasing from 1 to 0.

    Raises:
        InvalidInputError: a probability outside [0, 1], or another shape.
    """
    rule = "a probability lies in [0, 1]"
    probabilities = checked("probabilities", probabilities, 0.0, 1.0, rule)
    if probabilities.ndim != 1:
        raise InvalidInputError("shape of probabilities", probabilities.shape, "it is (n,)")
    masses = _masses(np.ascontiguousarray(probabilities))
    tail = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    # Summed from the small end the total is 1 up to rounding, and known to be 1.
    tail[0] = 1.0
    return np.asarray(np.minimum(tail, 1.0))


def binomial_tail(trials: int, *, probability: float) -> tuple[int, Floats]:
    """Return a value `first` and P[S >= v] for v = first, first + 1, ..., where S is binomial.

    From 1 at `first` to 0 at the end; what lies outside differs from 1 and 0 by less than 1e-290
    (Bernstein's inequality). The window grows like the distribution's width, so that it takes a
    moment for a thousand million trials too.

    Args:
        trials: n, at least 0.
        probability: of each, in [0, 1].
    """
    checked("trials", trials, 0, np.inf, "a number of trials is at least 0")
    checked("probability", probability, 0.0, 1.0, "a probability lies in [0, 1]")
    mean, depth = trials * probability, -math.log(_NEGLIGIBLE)
    reach = depth / 3.0 + math.sqrt(depth**2 / 9.0 + 2.0 * depth * mean * (1.0 - probability))
    first = max(0, math.floor(mean - reach))
    last = min(trials, math.ceil(mean + reach))
    below = np.arange(first, last)
    within = betainc(below + 1.0, trials - below, probability)  # P[S > v], without scipy.stats
    return first, np.concatenate([[1.0], within, [0.0]])


@njit(cache=True)
def _masses(probabilities: Floats) -> Floats:
    """P[S = v] for v = 0, ..., n."""
    masses = np.zeros(probabilities.size + 1)
    masses[0] = 1.0
    low, high = 0, 0
    for probability in probabilities:
        masses[high + 1] = masses[high] * probability
        for value in range(high, low, -1):
            stays = masses[value] * (1.0 - probability)
            masses[value] = stays + masses[value - 1] * probability
        masses[low] *= 1.0 - probability
        high += 1
        while masses[high] < _NEGLIGIBLE:
            masses[high] = 0.0
            high -= 1
        while masses[low] < _NEGLIGIBLE:
            masses[low] = 0.0
            low += 1
    return masses

"""Probabilities of secrets before anything is published.

Each function returns probabilities of secrets; the prior of an attack follows from them by
`privcore.upper_bounds.encodings`. A prior is an assumption about what attackers know. Guarantees
computed from one do not hold against an attacker who knows more.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked

_SUMMED = 10_000
_ROUNDING = 1e-6


def uniform_prior(digits: ArrayLike, *, base: int = 10) -> Floats:
    """Return the probability base^-digits of every secret of `digits` digits, all equally probable.

    Args:
        digits: at least 0, any shape; with base 2 these are bits.
        base: at least 2.

    Raises:
        InvalidInputError: a value out of its range.

    >>> float(uniform_prior(4))
    0.0001
    """
    checked("base", base, 2, np.inf, "a digit has at least two values")
    digits = checked("digits", digits, 0.0, np.inf, "a number of digits is at least 0")
    return np.asarray(float(base) ** -digits)[()]


def zipf_prior(rank: ArrayLike, *, exponent: float, size: int) -> Floats:
    """Return the probability of the secret of a given rank under Zipf's law over `size` secrets.

    `rank^-exponent / (1 + 2^-exponent + ... + size^-exponent)`. The sum's first 10,000 terms are
    added and the rest integrated (Euler and Maclaurin), to a relative error below 1e-12.

    Args:
        rank: 1 (the most probable) to `size`, any shape.
        exponent: at least 0, at most 100; 0 is the uniform distribution.
        size: how many secrets there are, at least 1.

    Raises:
        InvalidInputError: a value out of its range.

    >>> float(zipf_prior(1, exponent=1.1, size=10**9).round(3))
    0.107
    """
    checked("exponent", exponent, 0.0, 100.0, "it lies in [0, 100]")
    checked("size", size, 1, np.inf, "there is at least one secret")
    rank = checked("rank", rank, 1.0, size, f"a rank lies in [1, {size}]")
    return np.asarray(rank**-exponent / _harmonic(float(size), exponent))[()]


def checked_distribution(probabilities: ArrayLike) -> Floats:
    """Return `probabilities` as floats whose last axis sums to 1 within 1e-6."""
    rule = "a probability lies in [0, 1]"
    probabilities = np.atleast_1d(checked("probabilities", probabilities, 0.0, 1.0, rule))
    total = probabilities.sum(axis=-1)
    wrong = np.abs(total - 1.0) > _ROUNDING
    if probabilities.shape[-1] == 0 or wrong.any():
        value = float(total[wrong][0]) if wrong.any() else 0.0
        raise InvalidInputError("sum of probabilities", value, "a distribution sums to 1")
    return probabilities


def _harmonic(size: float, exponent: float) -> float:
    """Sum of k^-exponent for k up to `size`."""
    start = min(size, float(_SUMMED))
    summed = float(np.sum(np.arange(1.0, start + 1.0)[::-1] ** -exponent))
    if size == start:
        return summed
    # The integral of x^-exponent from start to size, in a form that is smooth at exponent 1.
    stretch = np.log(size / start)
    integral = start ** (1.0 - exponent) * stretch * exprel((1.0 - exponent) * stretch)
    ends = (size**-exponent - start**-exponent) / 2.0
    slopes = exponent * (start ** (-exponent - 1.0) - size ** (-exponent - 1.0)) / 12.0
    return float(summed + integral + ends + slopes)

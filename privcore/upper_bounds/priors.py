"""Probabilities of secrets before anything is published, and attacks as priors.

Each function of the first kind returns probabilities of secrets. A prior is an assumption about
what attackers know. Guarantees computed from one do not hold against an attacker who knows more.

*Attacks as priors*: "Beyond the Worst Case" (2025), section 3, encodes every attack as: the
target's secret is drawn from a known distribution, the attacker names a guess, and it succeeds if
the secret lies in the guess's set. The prior is the probability of the most probable set, and is
all that the bounds in `attack_success` and `success_counts` need. A secret here is whatever the
declared guarantee's unit protects at once: a guarantee for labels says nothing about features.
"""

from collections.abc import Mapping

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


def joint_prior(joint: ArrayLike, *, known: Mapping[int, int] | None = None) -> Floats:
    """Return the prior of guessing all unknown attributes of a record that depend on one another.

    The multi-attribute inference of section 3.3: the attacker knows some of the target's columns,
    and names the most probable combination of all others given these.

    Args:
        joint: shape (values of attribute 0, values of attribute 1, ...), the probability of each
            combination; attributes may depend on one another in any way.
        known: attribute -> the target's value, as positions; without it nothing is known.

    Raises:
        InvalidInputError: `joint` is not a distribution, a position that it does not have, or a
            combination of known values that never occurs.

    >>> # The second attribute is the first one, nearly always: to know one is to know the other.
    >>> joint = [[0.49, 0.01], [0.01, 0.49]]
    >>> float(joint_prior(joint)), float(joint_prior(joint, known={0: 1}))
    (0.49, 0.98)
    """
    known = {} if known is None else known
    joint = np.asarray(joint, dtype=np.float64)
    joint = checked_distribution(joint.ravel()).reshape(joint.shape)
    at: list[int | slice] = [slice(None)] * joint.ndim
    for attribute, value in known.items():
        checked("attribute", attribute, 0, joint.ndim - 1, f"there are {joint.ndim} attributes")
        last = joint.shape[attribute] - 1
        checked(f"value of attribute {attribute}", value, 0, last, f"it lies in 0 to {last}")
        at[attribute] = value
    rest = joint[tuple(at)]
    total = float(rest.sum())
    if total <= 0.0:
        raise InvalidInputError("known", dict(known), "these values occur together")
    return np.asarray(rest.max() / total)[()]


def attempts_prior(probabilities: ArrayLike, *, distances: ArrayLike, within: float) -> Floats:
    """Return the prior of attempts that were made: the mass of the records that any of them hits.

    A target is reconstructed if the *nearest* of the k attempts lies within the distance, whoever
    the attempt was meant for (section 3.3), so k may exceed the number of targets. Unlike
    `reconstruction_prior` it is about these attempts and not the best ones: the prior that Theorem
    3.2 and Corollary 3.4 ask for, which for a poor attack is much smaller.

    Args:
        probabilities: shape (..., secrets), of the targets' records.
        distances: shape (attempts, secrets), from every attempt to every possible record.
        within: the distance E that still counts as a success, at least 0.

    Returns:
        Shape (...).
    """
    probabilities, near = _near(probabilities, distances, within, "attempt")
    return np.asarray(np.minimum(probabilities @ near.max(axis=0), 1.0))[()]


def reconstruction_prior(
    probabilities: ArrayLike, *, distances: ArrayLike, within: float, attempts: int = 1
) -> Floats:
    """Return the prior of naming a record that lies within a distance of the target's.

    The best blind guess has the most probability around it. With `within` 0 and distances that
    are 0 only between a record and itself, it is exact reconstruction of an attribute
    or of a whole record.

    Args:
        probabilities: shape (..., secrets), of the target's records.
        distances: shape (guesses, secrets), from every guess that an attacker could make: guesses
            that are no possible record may be the best, so leave none out.
        within: the distance E that still counts as a success, at least 0.
        attempts: k, how many records the attacker may name. For more than one the answer is the
            sum over the k best guesses: at least the mass of any k guesses together, and more
            where the best ones lie near each other.

    Returns:
        Shape (...).
    """
    checked("attempts", attempts, 1, np.inf, "an attacker names at least one record")
    probabilities, near = _near(probabilities, distances, within, "guess")
    best = np.sort(probabilities @ near.T, axis=-1)[..., ::-1][..., :attempts]
    return np.asarray(np.minimum(best.sum(axis=-1), 1.0))[()]


def _near(
    probabilities: ArrayLike, distances: ArrayLike, within: float, row: str
) -> tuple[Floats, Floats]:
    """Checked probabilities, and 1 where a row's guess lies within the distance, else 0."""
    probabilities = checked_distribution(probabilities)
    distances = checked("distances", distances, 0.0, np.inf, "a distance is at least 0")
    checked("within", within, 0.0, np.inf, "a distance is at least 0")
    if distances.ndim != 2 or distances.shape[1] != probabilities.shape[-1] or not distances.size:
        rule = f"it has a row per {row} and {probabilities.shape[-1]} columns"
        raise InvalidInputError("shape of distances", distances.shape, rule)
    return probabilities, (distances <= within).astype(np.float64)

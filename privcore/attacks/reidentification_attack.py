"""Telling who took part from a noisy output: the best attack, given all training sets.

Izzo, Yoon, Arik and Zou, "Provable Re-identification Privacy", Proposition 2: the best adversary
weighs every training set that could have been drawn by how probable the output is after it. With
noise of a known density these are sums. What it wins on average over training sets is what
eta-RIP bounds.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked


def anisotropic_log_likelihood(
    output: ArrayLike, outputs: ArrayLike, *, deviations: ArrayLike, scale: float
) -> Floats:
    """Return how probable a noisy output is after each training set, but for a constant.

    The noise is that of `upper_bounds.anisotropic_noise`: its density is proportional to
    exp(-||x||/scale) in the norm sqrt(mean of (x_i/deviation_i)^2). A coordinate of deviation 0 has
    no noise: a training set whose output differs there is impossible.

    Args:
        output: shape (dimension,), as it was published.
        outputs: shape (training sets, dimension), without noise.
        deviations: shape (dimension,), at least 0.
        scale: above 0.

    Returns:
        Shape (training sets,), logarithms; minus infinity for never.
    """
    difference = _difference(output, outputs, scale)
    largest = np.finfo(np.float64).max
    spread = checked("deviations", deviations, 0.0, largest, "a deviation is finite, at least 0")
    if spread.shape != difference.shape[1:]:
        rule = f"it is {difference.shape[1:]}"
        raise InvalidInputError("shape of deviations", spread.shape, rule)
    quiet = spread == 0.0
    possible = ~np.any((difference != 0.0) & quiet, axis=1)
    scaled = difference / np.where(quiet, 1.0, spread)
    norm = np.sqrt(np.mean(np.where(quiet, 0.0, scaled) ** 2, axis=1))
    return np.asarray(np.where(possible, -norm / scale, -np.inf))


def radial_log_likelihood(output: ArrayLike, outputs: ArrayLike, *, scale: float) -> Floats:
    """Return the same for the noise of the printed Algorithm 1, a Laplace radius.

    A Laplace(scale) radius in a uniform direction has a density proportional to
    exp(-||x||/scale) / ||x||^(dimension - 1), which grows without bound towards 0.

    Args, shapes and errors are those of `anisotropic_log_likelihood`.
    """
    difference = _difference(output, outputs, scale)
    radius = np.maximum(np.linalg.norm(difference, axis=1), np.finfo(np.float64).tiny)
    return np.asarray(-radius / scale - (difference.shape[1] - 1) * np.log(radius))


def member_probabilities(log_likelihoods: ArrayLike, members: ArrayLike) -> Floats:
    """Return how probable it is that each record took part, given the output.

    Proposition 2's adversary says so from 1/2 on. All training sets were equally probable.

    Args:
        log_likelihoods: shape (training sets,), not all minus infinity.
        members: booleans, shape (training sets, records).

    Returns:
        Shape (records,).

    Raises:
        InvalidInputError: shapes that do not fit, NaN, or an output that no training set has.
    """
    logs, sets = np.asarray(log_likelihoods, dtype=np.float64), np.asarray(members)
    if sets.dtype != np.bool_ or sets.ndim != 2 or logs.shape != sets.shape[:1]:
        rule = f"it is {sets.shape[:1]}, with booleans for members"
        raise InvalidInputError("shape of log_likelihoods", logs.shape, rule)
    total = logsumexp(logs)
    if not np.isfinite(total):
        raise InvalidInputError("log_likelihoods", float(total), "some training set is possible")
    return np.asarray(np.minimum(np.exp(logs - total) @ sets, 1.0))


def _difference(output: ArrayLike, outputs: ArrayLike, scale: float) -> Floats:
    least, largest = np.nextafter(0.0, 1.0), np.finfo(np.float64).max
    checked("scale", scale, least, largest, "a scale is finite and above 0")
    rule = "an output is finite"
    published = checked("output", output, -largest, largest, rule)
    known = checked("outputs", outputs, -largest, largest, rule)
    if known.ndim != 2 or published.shape != known.shape[1:] or not known.size:
        raise InvalidInputError("shape of outputs", known.shape, "it is (training sets, dimension)")
    return published - known

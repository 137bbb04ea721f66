"""Upper bounds on the bits of a secret that a mechanism with a known Renyi curve leaks.

Stock, Shilov, Mironov and Sablayrolles, "Defending against Reconstruction Attacks with Renyi
Differential Privacy", 2022 (arXiv:2202.07623). A secret that is guessed blindly with probability
p0 is guessed from the output with probability p1; log2(p1/p0) bits leak. The curve compares
training with the secret to training without it, so its neighbouring relation is the one under
which p0 is what remains once the secret is taken out or replaced. These bounds concern guessing
one whole secret; they do not bound what is learned about parts of it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked, checked_curve, checked_orders
from privcore.upper_bounds.attack_success import checked_prior

_LOG_2 = np.log(2.0)


def renyi_leakage(secret_bits: ArrayLike, *, orders: ArrayLike, divergences: ArrayLike) -> Floats:
    """Return the most bits that leak of a secret with this many bits, log2(1/p0).

    `min over orders of (1 - 1/order) d + log(1/p0)/order`, in bits, and never more than the
    secret has: the probability preservation of Renyi divergences (Mironov 2017,
    arXiv:1702.07476, Proposition 10; Stock et al. 2022, section 3). As a minimum of lines it is
    non-decreasing and concave in the bits.

    Args:
        secret_bits: log2(1/p0), finite and at least 0, any shape, which is that of the answer.
        orders: shape (orders,), above 1; infinity stands for pure DP.
        divergences: shape (orders,), in nats; infinite where nothing is known.

    Raises:
        InvalidInputError: a value out of its range, or shapes that differ.

    >>> float(renyi_leakage(20, orders=[1.5, 2, 4, 8], divergences=[0.75, 1, 2, 4]).round(2))
    7.16
    """
    bits = _checked_bits(secret_bits)
    orders, divergences = checked_curve(orders, divergences)
    weight = 1.0 / orders
    lines = (1.0 - weight) * divergences / _LOG_2 + bits[..., np.newaxis] * weight
    return _limited(lines, bits)


def direct_leakage(secret_bits: ArrayLike, *, orders: ArrayLike, divergences: ArrayLike) -> Floats:
    """Return the bits by the usual conversion, `min of d + log(1/p0)/(order - 1)`, never fewer.

    It is epsilon at delta = p0 (Mironov 2017, Proposition 3) read as a leakage, with which Stock
    et al. compare. It is a bound, since no order gives less than in `renyi_leakage`. Arguments,
    shapes and errors are those of `renyi_leakage`.
    """
    bits = _checked_bits(secret_bits)
    orders, divergences = checked_curve(orders, divergences)
    lines = divergences / _LOG_2 + bits[..., np.newaxis] / (orders - 1.0)
    return _limited(lines, bits)


def least_leakage(secret_bits: ArrayLike, *, orders: ArrayLike, divergences: ArrayLike) -> Floats:
    """Return how many bits a secret's probability falls at most, as a number of at most 0.

    The lower side of Stock et al. 2022, Theorem 1: `log2(p1/p0) >= -(d + log(1/p0)/(order - 1))`,
    the best of all orders, so `p1 >= p0 e^-h` with the h of `direct_leakage`. It says that a secret
    which training saw cannot be made much *less* probable than it was: an attack that is sure of
    another value is not better for it. Arguments and errors are those of `renyi_leakage`; minus
    infinity where nothing is known.
    """
    bits = _checked_bits(secret_bits)
    orders, divergences = checked_curve(orders, divergences)
    lines = divergences / _LOG_2 + bits[..., np.newaxis] / (orders - 1.0)
    return np.asarray(-lines.min(axis=-1))[()]


def improved_conversion_leakage(
    secret_bits: ArrayLike, *, orders: ArrayLike, divergences: ArrayLike
) -> Floats:
    """Return epsilon at delta = p0 by the best known conversion, in bits, for comparison only.

    `min of d + log(1 - 1/order) - (log p0 + log order)/(order - 1)`: Balle et al. 2020
    (arXiv:1905.09982), Theorem 21. It is *not* a bound on leakage: p1 <= e^epsilon p0 + delta makes
    it log2(e^epsilon + 1) bits. Arguments, shapes and errors are those of `renyi_leakage`.
    """
    bits = _checked_bits(secret_bits)
    orders, divergences = checked_curve(orders, divergences)
    finite = np.isfinite(orders)
    some = np.where(finite, orders, 2.0)
    gain = np.where(finite, np.log1p(-1.0 / some) - np.log(some) / (some - 1.0), 0.0)
    slope = np.where(finite, 1.0 / (some - 1.0), 0.0)
    return _limited((divergences + gain) / _LOG_2 + bits[..., np.newaxis] * slope, bits)


def renyi_success_bound(prior: ArrayLike, *, orders: ArrayLike, divergences: ArrayLike) -> Floats:
    """Return the largest success probability of one guess, given that of the best blind guess.

    `min over orders of (prior e^d)^(1 - 1/order)`, at most 1: `renyi_leakage` as a probability.

    Args:
        prior: in [0, 1], any shape, which is the shape of the answer.
        orders: shape (orders,), above 1.
        divergences: shape (orders,), in nats.
    """
    prior = checked_prior(prior)
    known = np.where(prior > 0.0, prior, 1.0)
    bits = np.maximum(-np.log2(known), 0.0)
    leaked = renyi_leakage(bits, orders=orders, divergences=divergences)
    return np.asarray(np.where(prior > 0.0, np.exp2(leaked - bits), 0.0))[()]


def curve_leakage(
    secret_bits: ArrayLike,
    *,
    divergence: Callable[[float], float],
    least_order: float = 1.01,
    largest_order: float = 10_000.0,
) -> Floats:
    """Return `renyi_leakage` minimised continuously over an interval of orders.

    With u = 1/order the minimised function is u K(1/u) + u log(1/p0), where K(order) =
    (order - 1) d is convex for the divergence between two fixed distributions; its perspective is
    convex in u, so a scalar search finds the one minimum. For a curve that is itself a maximum of
    such divergences the same holds. Wherever the search stops, the answer is a bound.

    Args:
        secret_bits: finite and at least 0, any shape, which is the shape of the answer.
        divergence: the divergence in nats at an order; infinite where nothing is known.
        least_order: above 1.
        largest_order: above `least_order`, finite.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  # it takes longer than all else here

    bits = _checked_bits(secret_bits)
    least, largest = (float(order) for order in checked_orders([least_order, largest_order]))
    if not least < largest < np.inf:
        rule = f"it is finite and above least_order, {least:g}"
        raise InvalidInputError("largest_order", largest_order, rule)

    def best(secret: float) -> float:
        def leaked(weight: float) -> float:
            # A search cannot subtract infinities; nothing near the answer is this large.
            known = min(divergence(1.0 / weight), 1e300)
            return float((1.0 - weight) * known / _LOG_2 + secret * weight)

        bounds = (1.0 / largest, 1.0 / least)
        search = minimize_scalar(leaked, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        ends = min(leaked(bounds[0]), leaked(bounds[1]))
        return min(float(search.fun), ends)

    found = np.array([best(float(secret)) for secret in bits.ravel()]).reshape(bits.shape)
    return _limited(found[..., np.newaxis], bits)


def _checked_bits(secret_bits: ArrayLike) -> Floats:
    rule = "a number of bits is finite and at least 0"
    return checked("secret_bits", secret_bits, 0.0, np.finfo(np.float64).max, rule)


def _limited(lines: Floats, bits: Floats) -> Floats:
    """Least over the last axis, at least 0 and at most all bits."""
    return np.asarray(np.clip(lines.min(axis=-1), 0.0, bits))[()]

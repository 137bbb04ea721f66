"""Conversions between pure, (epsilon, delta), Gaussian and Renyi differential privacy.

Every conversion goes from the stronger statement to one that it implies, and is exact unless its
docstring says "bound". Arrays broadcast; scalars in, scalars out. Infinity is a value: it says
that no finite guarantee of the asked kind follows.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp, ndtri

from privcore.exceptions import InvalidInputError

Floats = NDArray[np.float64]

_HALVINGS = 100


def checked(name: str, value: ArrayLike, low: float, high: float, rule: str) -> Floats:
    """Return `value` as floats, all in [low, high]; raise `InvalidInputError` naming the first not.

    NaN lies in no interval.
    """
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(name, value, rule) from error
    wrong = ~((numbers >= low) & (numbers <= high))
    if wrong.any():
        raise InvalidInputError(name, float(numbers[wrong][0]), rule)
    return numbers


def checked_epsilon(epsilon: ArrayLike) -> Floats:
    """Return `epsilon` as floats in [0, infinity]."""
    return checked("epsilon", epsilon, 0.0, np.inf, "epsilon is at least 0")


def checked_delta(delta: ArrayLike) -> Floats:
    """Return `delta` as floats in [0, 1)."""
    return checked("delta", delta, 0.0, np.nextafter(1.0, 0.0), "delta lies in [0, 1)")


def checked_orders(orders: ArrayLike) -> Floats:
    """Return Renyi orders as floats above 1; infinity, the pure-DP end, is one of them."""
    return checked("orders", orders, np.nextafter(1.0, 2.0), np.inf, "a Renyi order is above 1")


def gaussian_delta(mu: ArrayLike, *, epsilon: ArrayLike) -> Floats:
    """Return the least delta such that mu-Gaussian DP implies (epsilon, delta)-DP.

    `Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`: Balle and Wang 2018
    (arXiv:1805.06530), Theorem 8; Dong, Roth and Su 2022 (arXiv:1905.02383), Corollary 1. Computed
    from logarithms, so that deltas far below 1e-16 keep their digits; a mu below 1e-6 costs some.

    Args:
        mu: at least 0, any shape.
        epsilon: at least 0, any shape that broadcasts with `mu`.

    Raises:
        InvalidInputError: a value below 0 or NaN.

    >>> round(float(gaussian_delta(1.0, epsilon=1.0)), 4)
    0.1269
    """
    mu, epsilon = np.broadcast_arrays(_checked_mu(mu), checked_epsilon(epsilon))
    return np.asarray(np.exp(_log_gaussian_delta(mu, epsilon)))[()]


def gaussian_epsilon(mu: ArrayLike, *, delta: ArrayLike) -> Floats:
    """Return the least epsilon such that mu-Gaussian DP implies (epsilon, delta)-DP.

    The inverse of `gaussian_delta`, by bisection; infinite where delta is 0 and mu is not.

    Raises:
        InvalidInputError: mu below 0, or delta outside [0, 1).

    >>> round(float(gaussian_epsilon(1.0, delta=1e-5)), 6)
    4.377178
    """
    mu, delta = np.broadcast_arrays(_checked_mu(mu), checked_delta(delta))
    finite = (mu > 0.0) & np.isfinite(mu) & (delta > 0.0)
    some_mu, some_delta = np.where(finite, mu, 1.0), np.where(finite, delta, 0.5)
    # delta(epsilon) <= Phi(mu/2 - epsilon/mu), and the right side is delta at this epsilon.
    high = np.maximum(some_mu * (some_mu / 2.0 - ndtri(some_delta)), 0.0)
    target = np.log(some_delta)
    epsilon = _smallest(lambda e: _log_gaussian_delta(some_mu, e) <= target, high)
    return np.where(finite, epsilon, np.where(mu > 0.0, np.inf, 0.0))[()]


def gaussian_mu(epsilon: ArrayLike, *, delta: ArrayLike) -> Floats:
    """Return the mu at which mu-Gaussian DP implies exactly (epsilon, delta)-DP.

    It inverts `gaussian_delta` in mu. It does *not* say that (epsilon, delta)-DP implies mu-GDP:
    no finite mu follows from one (epsilon, delta) pair with delta above 0. For delta 0 the answer
    is 0, the only Gaussian guarantee that is pure.

    Raises:
        InvalidInputError: epsilon below 0, or delta outside [0, 1).

    >>> round(float(gaussian_mu(1.0, delta=1e-5)), 3)
    0.268
    """
    epsilon, delta = np.broadcast_arrays(checked_epsilon(epsilon), checked_delta(delta))
    finite = np.isfinite(epsilon) & (delta > 0.0)
    some_epsilon, some_delta = np.where(finite, epsilon, 1.0), np.where(finite, delta, 0.5)
    # Here mu/2 - epsilon/mu >= 3 mu/8 >= t = 3 + 1.5 |z|, and 1 - delta(mu) is at most
    # Phi(-t) + phi(t)/4 (Mills' ratio), which is below Phi(-|z|).
    high = 2.0 * np.sqrt(2.0 * some_epsilon) + 4.0 * np.abs(ndtri(some_delta)) + 8.0
    target = np.log(some_delta)
    mu = _smallest(lambda m: _log_gaussian_delta(m, some_epsilon) >= target, high)
    return np.where(finite, mu, np.where(delta > 0.0, np.inf, 0.0))[()]


def pure_renyi(epsilon: ArrayLike, *, orders: ArrayLike, classes: int = 2) -> Floats:
    """Return the Renyi divergence of randomized response over `classes` values at epsilon.

    With two classes this is the most that any epsilon-DP mechanism can have, as each is a
    post-processing of binary randomized response (Kairouz, Oh and Viswanath 2015,
    arXiv:1311.0776); it is at most min(epsilon, order epsilon^2 / 2) and equals epsilon at order
    infinity. For more classes it is the exact divergence of that mechanism alone.

    Args:
        epsilon: at least 0, any shape.
        orders: above 1, any shape that broadcasts with `epsilon`.
        classes: at least 2.
    """
    checked("classes", classes, 2, np.inf, "a response has at least two values")
    epsilon, orders = np.broadcast_arrays(checked_epsilon(epsilon), checked_orders(orders))
    finite = np.isfinite(epsilon) & np.isfinite(orders)
    some_epsilon, some_order = np.where(finite, epsilon, 0.0), np.where(finite, orders, 2.0)
    with np.errstate(divide="ignore"):
        others = np.full_like(some_epsilon, np.log(classes - 2.0))
    terms = np.stack([some_order * some_epsilon, (1.0 - some_order) * some_epsilon, others])
    log_moment = logsumexp(terms, axis=0) - np.logaddexp(some_epsilon, np.log(classes - 1.0))
    divergence = np.maximum(log_moment / (some_order - 1.0), 0.0)
    return np.where(finite, divergence, epsilon)[()]


def gaussian_renyi(mu: ArrayLike, *, orders: ArrayLike) -> Floats:
    """Return the Renyi divergence order mu^2 / 2 of mu-Gaussian DP (Mironov 2017, Corollary 3)."""
    return np.asarray(checked_orders(orders) * _checked_mu(mu) ** 2 / 2.0)[()]


def renyi_epsilon(orders: ArrayLike, divergences: ArrayLike, *, delta: ArrayLike) -> Floats:
    """Return an epsilon such that the given Renyi DP implies (epsilon, delta)-DP: a bound.

    `min over orders of d + log(1 - 1/order) - (log delta + log order)/(order - 1)`, at least 0:
    Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Proposition 12; Balle et al. 2020
    (arXiv:1905.09982), Theorem 21.

    Args:
        orders: shape (orders,), above 1.
        divergences: shape (orders,), at least 0; infinite where nothing is known.
        delta: in [0, 1), any shape, which is the shape of the answer.

    Raises:
        InvalidInputError: a value out of its range, or shapes that differ.

    >>> round(float(renyi_epsilon([2.0, 8.0, 32.0], [0.1, 0.4, 1.6], delta=1e-5)), 2)
    1.61
    """
    orders, divergences = checked_curve(orders, divergences)
    with np.errstate(divide="ignore"):
        log_delta = np.log(checked_delta(delta))[..., np.newaxis]
    finite = np.isfinite(orders)
    some_order = np.where(finite, orders, 2.0)
    correction = np.log1p(-1.0 / some_order) - (log_delta + np.log(some_order)) / (some_order - 1.0)
    epsilon = divergences + np.where(finite, correction, 0.0)
    return np.asarray(np.maximum(epsilon.min(axis=-1), 0.0))[()]


def checked_curve(orders: ArrayLike, divergences: ArrayLike) -> tuple[Floats, Floats]:
    """Return a Renyi curve as two float arrays of one shape (orders,), with at least one order."""
    orders = np.atleast_1d(checked_orders(orders))
    rule = "a Renyi divergence is at least 0"
    divergences = np.atleast_1d(checked("divergences", divergences, 0.0, np.inf, rule))
    if orders.ndim != 1 or orders.shape != divergences.shape or orders.size == 0:
        raise InvalidInputError("divergences", divergences.shape, f"one per order: {orders.shape}")
    return orders, divergences


def add_remove_to_replace(epsilon: ArrayLike, *, delta: ArrayLike = 0.0) -> tuple[Floats, Floats]:
    """Return the (epsilon, delta) for replacing a record that follows from adding or removing one.

    Group privacy over two steps: (2 epsilon, (1 + e^epsilon) delta), Dwork and Roth 2014, Theorem
    2.2 and its (epsilon, delta) form: a bound. The other way nothing is lost: label replacement at
    (epsilon, delta) implies the simulation-based add/remove guarantee that the audit tests at the
    same (epsilon, delta), where the simulator replaces the record's label; not conversely.
    """
    epsilon, delta = np.broadcast_arrays(checked_epsilon(epsilon), checked_delta(delta))
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.where(delta > 0.0, (1.0 + np.exp(epsilon)) * delta, 0.0)
    return (2.0 * epsilon)[()], np.minimum(grown, 1.0)[()]


def _checked_mu(mu: ArrayLike) -> Floats:
    """Mu as floats in [0, infinity]."""
    return checked("mu", mu, 0.0, np.inf, "mu is at least 0")


def _log_gaussian_delta(mu: Floats, epsilon: Floats) -> Floats:
    """Logarithm of delta(epsilon) of mu-GDP; minus infinity where it is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = epsilon / mu
        power = log_ndtr(mu / 2.0 - ratio)
        gap = epsilon + log_ndtr(-mu / 2.0 - ratio) - power
        log_delta = power + np.log(-np.expm1(np.minimum(gap, 0.0)))
    nothing = (mu == 0.0) | np.isposinf(epsilon)
    return np.where(nothing, -np.inf, np.where(np.isposinf(mu), 0.0, log_delta))


def _smallest(holds: Callable[[Floats], NDArray[np.bool_]], high: Floats) -> Floats:
    """Smallest value in [0, high] from which on `holds` is true; it is true at `high`."""
    low = np.zeros_like(high)
    high = np.where(holds(low), low, high)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2.0
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high

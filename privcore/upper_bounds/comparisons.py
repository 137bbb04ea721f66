"""Other theorems on one guess at one target, for comparison with `success_bound`.

None of these is below the best attack; where `success_bound` applies it is at most the first
two. A bound for another unit or relation is not comparable.
"""

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees import Guarantee
from privcore.guarantees.conversions import Floats, checked, checked_delta, checked_epsilon
from privcore.guarantees.tradeoffs import inverse
from privcore.upper_bounds.attack_success import checked_prior


def reconstruction_robustness(prior: ArrayLike, *, epsilon: ArrayLike) -> Floats:
    """Return `min(1, e^epsilon prior)`, a bound on reconstruction under epsilon-DP.

    Balle, Cherubin and Hayes 2022 (arXiv:2201.04845), Theorem 2. For small priors it is close to
    `success_bound`; for a fair bit it is empty from epsilon = log 2.

    Args:
        prior: success probability of the best blind guess, in [0, 1], any shape.
        epsilon: at least 0, any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range.

    >>> round(float(reconstruction_robustness(0.01, epsilon=1.0)), 4)
    0.0272
    """
    return narcissus_bound(prior, epsilon=epsilon, delta=0.0)


def narcissus_bound(prior: ArrayLike, *, epsilon: ArrayLike, delta: ArrayLike) -> Floats:
    """Return `min(1, e^epsilon prior + delta)`, a bound on reconstruction.

    Under (epsilon, delta)-DP, by the Narcissus resiliency of Cohen et al., "Data Reconstruction:
    When You See It and When You Don't" (arXiv:2405.15753): the attack is compared with itself on
    data that are independent of the output, where its success is at most the prior.

    Args:
        prior: in [0, 1], any shape.
        epsilon: at least 0, any shape that broadcasts.
        delta: in [0, 1), any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range.

    >>> round(float(narcissus_bound(0.01, epsilon=1.0, delta=1e-5)), 4)
    0.0272
    """
    prior, epsilon, delta = checked_prior(prior), checked_epsilon(epsilon), checked_delta(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        # From the logarithm, so that prior 0 stays 0 at any epsilon.
        grown = np.where(prior > 0.0, np.exp(np.minimum(np.log(prior) + epsilon, 0.0)), 0.0)
    return np.asarray(np.minimum(grown + delta, 1.0))[()]


def tradeoff_success_bound(choices: ArrayLike, *, guarantee: Guarantee) -> Floats:
    """Return the largest probability of guessing a secret drawn uniformly from k values.

    The largest s with s <= 1 - f((1 - s)/(k - 1)), where f is the guarantee's trade-off function.
    The one-guess case of Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235). For values
    a and b and the outputs G_a that make the attack say a, 1 - f bounds the power P_a(G_a) given
    the error P_b(G_a); 1 - f is concave, so the same holds of their means over all pairs, which
    are s and (1 - s)/(k - 1). For (epsilon, delta) it is b + delta (1 - b) with b the
    `success_bound` at prior 1/k: slightly less than Corollary 3.4's b + delta.

    Args:
        choices: k, whole numbers of at least 2, any shape.
        guarantee: with its parameters, under replacement of the secret.

    Raises:
        InvalidInputError: fewer than two choices, or a guarantee without a parameter.

    >>> from privcore.guarantees import PureDP
    >>> float(tradeoff_success_bound(2, guarantee=PureDP(1.0)).round(4))
    0.7311
    """
    choices = checked("choices", choices, 2.0, np.inf, "a secret has at least two values")
    from scipy.optimize import brentq  # noqa: PLC0415  # it takes long, and who audits asks no search

    kernel = guarantee.kernel()

    def bound(k: float) -> float:
        def excess(success: float) -> float:
            return float(inverse(*kernel, success)) - (1.0 - success) / (k - 1.0)

        # A blind guess is always possible; rounding must not hide that sign from the search.
        if excess(1.0) <= 0.0 or excess(1.0 / k) >= 0.0:
            return 1.0 if excess(1.0) <= 0.0 else 1.0 / k
        return float(brentq(excess, 1.0 / k, 1.0, xtol=1e-300, rtol=1e-14))

    return np.array([bound(float(k)) for k in choices.ravel()]).reshape(choices.shape)[()]

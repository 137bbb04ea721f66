"""Re-identification privacy (RIP): how well anyone tells who took part.

Izzo, Yoon, Arik and Zou, "Provable Re-identification Privacy", published as "Provable Membership
Inference Privacy", TMLR 2024. A half of a fixed dataset is drawn at random and trained on; with
eta-RIP no reader of the output guesses whether a given record was in that half with more than
1/2 + eta probability. It is an average over halves: weaker than differential privacy, which
holds for every half, and silent about any secret but membership.
"""

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees.conversions import Floats, checked, checked_delta, checked_epsilon


def rip_eta(epsilon: ArrayLike, *, delta: ArrayLike = 0.0) -> Floats:
    """Return the eta of re-identification privacy that DP implies, tightly.

    `1/(1 + e^-epsilon) - 1/2`, the guess accuracy above a half; the membership advantage is twice
    as much. Computed as tanh(epsilon/2)/2, which keeps its digits near 0. With delta it is half
    the largest total variation, `tanh(epsilon/2)/2 + delta/(1 + e^epsilon)` (Kairouz, Oh and
    Viswanath 2015, arXiv:1311.0776): mixtures over halves are no farther apart than their parts.

    Args:
        epsilon: at least 0, any shape, under replacement of a record; infinity gives 1/2.
        delta: in [0, 1), any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range or NaN.

    >>> float(rip_eta(1.0).round(4))
    0.2311
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta)
    above = np.tanh(epsilon / 2.0) / 2.0
    return np.asarray(above + delta * (0.5 - above))[()]


def rip_epsilon(eta: ArrayLike) -> Floats:
    """Return the largest epsilon at which epsilon-DP implies eta-RIP, the inverse of `rip_eta`.

    `log((1 + 2 eta)/(1 - 2 eta))`. It does not say that eta-RIP implies epsilon-DP: it does not,
    for any epsilon.

    Args:
        eta: in [0, 1/2], any shape; 1/2 gives infinity.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * np.arctanh(2.0 * checked_eta(eta)))[()]


def rip_noise_scale(eta: ArrayLike, *, moment: ArrayLike = 2.0) -> Floats:
    """Return the published noise scale c = (7.5/eta)^(1 + 2/moment) that gives eta-RIP.

    Izzo et al., the theorem on noise addition: let the output's distance from its mean, in any
    norm and over random halves, have E distance^moment <= sigma^moment. Then noise with density
    proportional to exp(-||x||/(c sigma)) in that norm makes the output eta-RIP.

    Args:
        eta: in (0, 1/2], any shape.
        moment: at least 1, any shape that broadcasts; infinity for a distance that never exceeds
            sigma.
    """
    rule = "a moment's order is at least 1"
    power = 1.0 + 2.0 / checked("moment", moment, 1.0, np.inf, rule)
    return np.asarray((7.5 / checked_eta(eta, least=np.nextafter(0.0, 1.0))) ** power)[()]


def optimised_noise_scale(eta: ArrayLike) -> Floats:
    """Return the published noise scale for moment 2 with its better constant, (6.16/eta)^2.

    Izzo et al., Corollary 8, which says that optimising the theorem's bounds numerically gives 6.16
    in place of 7.5. It is the scale of their Figure 1.

    Args:
        eta: in (0, 1/2], any shape.
    """
    return np.asarray((6.16 / checked_eta(eta, least=np.nextafter(0.0, 1.0))) ** 2)[()]


def least_noise_scale(eta: ArrayLike) -> Floats:
    """Return a noise scale that suffices for eta-RIP too, c = 1/(2 eta), by a shorter proof.

    Not from the paper. Let the noise be as in `rip_noise_scale`, with sigma at least the *mean*
    distance. Noise around an output at distance t from the mean, and around the mean, have
    densities within a factor e^(t/c sigma), so their total variation is at most
    tanh(t / (2 c sigma)) <= t / (2 c sigma). Output distributions with and without the record
    both are mixtures, and each half of them has weight 1/2, so they differ by at most
    2 E[t] / (2 c sigma) <= 1/c in total variation, and a guess is right with probability at most
    1/2 + 1/(2 c). For eta = 0.1 and moment 2 it needs 1/1125 of the published noise.

    Args:
        eta: in (0, 1/2], any shape.
    """
    return np.asarray(0.5 / checked_eta(eta, least=np.nextafter(0.0, 1.0)))[()]


def checked_eta(eta: ArrayLike, *, least: float = 0.0) -> Floats:
    """Return `eta` as floats in [least, 1/2]."""
    interval = "(0, 1/2]" if least > 0.0 else "[0, 1/2]"
    return checked("eta", eta, least, 0.5, f"eta lies in {interval}")

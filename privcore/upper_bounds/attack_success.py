"""The most that one guess can achieve: any attack, any prior, under a declared guarantee.

Source of every theorem here unless another is named: Swanberg, Annamalai, Hayes, Balle and Smith,
"Beyond the Worst Case: Extending Differential Privacy Guarantees to Realistic Adversaries", 2025.
The *prior* of an attack is the success probability of the best guess made without the output:
`privcore.upper_bounds.encodings` computes it. All results hold for attackers with unlimited
computation who know everything but the target's secret, under the relation that replaces one
target's secret; they are upper bounds, and do not say that an attack this good exists.
"""

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees.conversions import Floats, checked, checked_delta, checked_epsilon

_LOG_2 = np.log(2.0)


def success_bound(prior: ArrayLike, *, epsilon: ArrayLike, delta: ArrayLike = 0.0) -> Floats:
    """Return the largest success probability of one guess, given that of the best blind guess.

    `e^epsilon / (e^epsilon - 1 + 1/prior) + delta`, at most 1: Theorem 3.2 for one target, which
    holds for every single output, and with delta Corollary 3.4, which averages over the outputs.
    Randomized response reaches it (Proposition B.1): who sees it answer b guesses b, and is right
    with this probability for b's own prior, as long as no other secret is more than e^epsilon
    times as probable as b. Averaged over outputs it is reached by uniform priors alone.

    Args:
        prior: success probability of the best blind guess, in [0, 1], any shape.
        epsilon: at least 0, any shape that broadcasts; infinity gives 1 unless the prior is 0.
        delta: in [0, 1), any shape that broadcasts.

    Raises:
        InvalidInputError: a value out of its range.

    >>> float(success_bound(0.5, epsilon=1.0).round(4))
    0.7311
    """
    prior, epsilon = checked_prior(prior), checked_epsilon(epsilon)
    # This form is exact at epsilon 0 and cannot overflow; only prior 0 at infinity needs care.
    rest = np.where(prior > 0.0, (1.0 - prior) * np.exp(-epsilon), 1.0)
    return np.asarray(np.minimum(prior / (prior + rest) + checked_delta(delta), 1.0))[()]


def generalised_advantage(prior: ArrayLike, posterior: ArrayLike) -> Floats:
    """Return `(posterior - prior) / (1 - prior)`, the share won of what there was to win.

    0 says that the output helped nothing, 1 that the attack always succeeds; negative for an
    attack worse than a blind guess. For prior 1/2 it is the usual advantage, twice the accuracy
    minus one. At prior 1 there is nothing to win, and it is 0.

    Args:
        prior: success probability of the best blind guess, in [0, 1], any shape.
        posterior: success probability of the attack, in [0, 1], any shape that broadcasts.
    """
    prior = checked_prior(prior)
    rule = "a success probability lies in [0, 1]"
    posterior = checked("posterior", posterior, 0.0, 1.0, rule)
    room = np.where(prior < 1.0, 1.0 - prior, 1.0)
    return np.asarray(np.where(prior < 1.0, (posterior - prior) / room, 0.0))[()]


def epsilon_protect(prior: ArrayLike, *, advantage: ArrayLike) -> Floats:
    """Return the largest epsilon that keeps the generalised advantage at or under a limit.

    `log(1 + advantage / ((1 - advantage) prior))`: Theorem 3.2 solved for epsilon under
    epsilon-DP. A less probable secret is protected by a larger epsilon, so take the prior of the
    *most* probable one to protect all.

    Args:
        prior: probability of the secret, in [0, 1], any shape; infinite at 0.
        advantage: the limit, in [0, 1], any shape that broadcasts; infinite at 1.

    Raises:
        InvalidInputError: a value outside [0, 1].

    >>> float(epsilon_protect(1e-9, advantage=0.05).round(1))
    17.8
    """
    prior = checked_prior(prior)
    advantage = checked("advantage", advantage, 0.0, 1.0, "an advantage lies in [0, 1]")
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = advantage / ((1.0 - advantage) * prior)
    return np.asarray(np.where(advantage > 0.0, np.log1p(odds), 0.0))[()]


def bits_leaked(probability: ArrayLike, *, epsilon: ArrayLike) -> Floats:
    """Return the most bits that leak with a given probability, `log2(e^epsilon (1/p - 1) + 1)`.

    A uniform secret of that many bits is guessed with probability at most `probability`, and a
    longer one with less: Theorem 3.2 with prior 2^-bits, solved for the bits. It is about one
    target under epsilon-DP, and the bits of a secret that is not uniform are those of its most
    probable value, log2(1/prior).

    Args:
        probability: of guessing the whole secret, in [0, 1], any shape; infinite bits at 0.
        epsilon: at least 0, any shape that broadcasts; at 0 the bits are log2(1/probability).

    Raises:
        InvalidInputError: a value out of its range.

    >>> round(float(bits_leaked(0.01, epsilon=1.0)), 2)
    8.08
    """
    rule = "a success probability lies in [0, 1]"
    probability = checked("probability", probability, 0.0, 1.0, rule)
    epsilon = checked_epsilon(epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = epsilon + np.log1p(-probability) - np.log(probability)
    # Without any guarantee every secret may be known for certain.
    log_odds = np.where(np.isposinf(epsilon), np.inf, log_odds)
    return np.asarray(np.logaddexp(0.0, log_odds) / _LOG_2)[()]


def checked_prior(prior: ArrayLike) -> Floats:
    """Return `prior` as floats in [0, 1]; raise `InvalidInputError` naming one that is not."""
    return checked("prior", prior, 0.0, 1.0, "a prior lies in [0, 1]")

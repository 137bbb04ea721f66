"""The most that one guess can achieve: any attack, any prior, under a declared guarantee.

Source of every theorem here unless another is named: Swanberg, Annamalai, Hayes, Balle and Smith,
"Beyond the Worst Case: Extending Differential Privacy Guarantees to Realistic Adversaries", 2025.
The *prior* of an attack is the success probability of the best guess made without the output:
`privcore.upper_bounds.priors` computes it. All results hold for attackers with unlimited
computation who know everything but the target's secret, under the relation that replaces one
target's secret; they are upper bounds, and do not say that an attack this good exists.

*By relation* (`privcore.guarantees.relations`): bounds on an attacker who names a bit of the game,
or a label. The game's bit says whether the label that training saw is shown or one drawn in its
place; a named label is a guess at the label itself. Both bounds hold for attackers with unlimited
computation who know everything but this record's label, for labels drawn from the distribution that
the prior is of. They are averages over outputs; without delta those under REPLACE and SIMULATE hold
at every single output, too.

*Other theorems on one guess at one target* stand here for comparison with `success_bound`. None of
them is below the best attack; where `success_bound` applies it is at most the first two
(`narcissus_bound`, `reconstruction_robustness`). A bound for another unit or relation is not
comparable.
"""

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Guarantee
from privcore.guarantees.conversions import Floats, checked, checked_delta, checked_epsilon
from privcore.guarantees.families import inverse
from privcore.guarantees.relations import Relation, implied, simulated_epsilon

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


def bit_success(
    epsilon: ArrayLike,
    *,
    delta: ArrayLike = 0.0,
    relation: Relation,
    prior: ArrayLike | None = None,
) -> Floats:
    """Return how often a guess at the game's bit is right at most.

    The bit tells the run on the shown label from the run on an imputed one, so under SIMULATE it is
    `(e^epsilon + delta) / (1 + e^epsilon)`. Under REPLACE that holds too, and with the shown
    label's prior q and no delta less: the odds are at most q + (1 - q) e^epsilon. Under ADD_REMOVE
    both runs are compared with the one without the label, hence at twice the epsilon.

    Args:
        epsilon: at least 0, any shape.
        delta: in [0, 1), any shape that broadcasts.
        relation: of the guarantee.
        prior: the shown label's probability under the distribution that imputes; only with
            REPLACE, and only without delta.

    Raises:
        InvalidInputError: a value out of its range, or a prior where none is used.

    >>> float(bit_success(1.0, relation=Relation.SIMULATE).round(4))
    0.7311
    >>> float(bit_success(1.0, relation=Relation.REPLACE, prior=0.5).round(4))
    0.6502
    >>> float(bit_success(1.0, relation=Relation.ADD_REMOVE).round(4))
    0.8808
    """
    if prior is not None:
        if relation is not Relation.REPLACE or np.any(checked_delta(delta) > 0.0):
            raise InvalidInputError("prior", prior, "only REPLACE without delta makes use of it")
        epsilon = simulated_epsilon(epsilon, prior=prior)
    epsilon, delta = implied(epsilon, delta=delta, given=relation, asked=Relation.SIMULATE)
    wrong = 1.0 / (1.0 + np.exp(np.minimum(epsilon, 700.0)))
    wrong = np.where(np.isposinf(epsilon), 0.0, wrong)
    return np.asarray(np.clip(1.0 - wrong * (1.0 - np.minimum(delta, 1.0)), 0.5, 1.0))[()]


def label_success(
    prior: ArrayLike, *, epsilon: ArrayLike, delta: ArrayLike = 0.0, relation: Relation
) -> Floats:
    """Return how often a named label is right at most, if it is with `prior` before the output.

    - REPLACE: `success_bound`, `q e^epsilon / (1 - q + q e^epsilon) + delta`.
    - SIMULATE: `min(q e^epsilon + delta, 1 - (1 - q - delta) e^-epsilon)`: the named label is at
      most e^epsilon times as probable as under the mixture, and the rest at least e^-epsilon times.
      It is more than under replacement at the same epsilon, and less than at twice that.
    - ADD_REMOVE: as SIMULATE with the run without the label in place of the mixture, or as REPLACE
      at twice the epsilon. The first needs no second step: each label is compared with the same
      run, which knows none, so q e^epsilon + delta holds, and success_bound at (2 epsilon,
      (1 + e^epsilon) delta); the smaller one is returned.

    Args:
        prior: q, of the most probable label, in [0, 1], any shape.
        epsilon: at least 0, any shape that broadcasts.
        delta: in [0, 1), any shape that broadcasts.
        relation: of the guarantee.

    Raises:
        InvalidInputError: a value out of its range.

    >>> for relation in Relation:
    ...     print(relation, label_success(0.5, epsilon=1.0, relation=relation).round(3))
    replace 0.731
    add_remove 0.881
    simulate 0.816
    """
    prior, epsilon = checked_prior(prior), checked_epsilon(epsilon)
    delta = checked_delta(delta)
    if relation is Relation.REPLACE:
        return success_bound(prior, epsilon=epsilon, delta=delta)
    with np.errstate(divide="ignore"):
        grown = np.where(prior > 0.0, np.exp(np.minimum(np.log(prior) + epsilon, 0.0)), 0.0)
    named = np.minimum(grown + delta, 1.0)
    if relation is Relation.SIMULATE:
        others = 1.0 - np.maximum(1.0 - prior - delta, 0.0) * np.exp(-epsilon)
        return np.asarray(np.minimum(named, others))[()]
    doubled, more = implied(epsilon, delta=delta, given=relation, asked=Relation.REPLACE)
    replaced = np.minimum(success_bound(prior, epsilon=doubled) + more, 1.0)
    return np.asarray(np.minimum(named, replaced))[()]


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

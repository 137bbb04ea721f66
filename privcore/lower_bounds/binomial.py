"""Exact binomial bounds: success rates, error rates, and pure DP at any prior."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from privcore.exceptions import InvalidInputError
from privcore.guarantees import check_delta
from privcore.lower_bounds.fdp import check_significance


def success_rate_lower(
    guesses: ArrayLike, correct: ArrayLike, *, significance: float
) -> NDArray[np.float64]:
    """Return the Clopper-Pearson lower limit of a success rate; arrays broadcast.

    Exact: if guesses succeed independently at a rate of at most p, the limit exceeds p with
    probability at most `significance`. 0 where nothing succeeded.
    """
    made = np.asarray(guesses, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    limit = betaincinv(np.maximum(right, 1.0), made - right + 1.0, significance)
    return np.where(right > 0.0, limit, 0.0)


def epsilon_lower_from_rates(
    members: int,
    true_positives: int,
    nonmembers: int,
    false_positives: int,
    *,
    delta: float = 0.0,
    significance: float = 0.05,
) -> float:
    """Return the bound that a test's true and false positive rates prove, by Clopper and Pearson.

    Under (epsilon, delta)-DP every test has TPR <= e^epsilon FPR + delta and 1 - FPR <=
    e^epsilon (1 - TPR) + delta (Kairouz, Oh and Viswanath 2015, Theorem 2.1). The true rate is
    held at its lower, the false one at its upper limit, each at half the significance (union
    bound), so the answer exceeds epsilon with probability at most `significance`.

    Assumptions: each trial is a run of its own of the mechanism, or trials are otherwise
    independent given the hypothesis; the test was fixed before its results were counted. Guesses
    of *one* run are not: for them see `epsilon_lower`.

    Args:
        members: trials in which the record took part.
        true_positives: how many of them the test called so.
        nonmembers: trials in which it did not.
        false_positives: how many of them the test called members.
        delta: the claim's delta.
        significance: allowed probability that the bound is wrong, in (0, 0.5).

    Raises:
        InvalidInputError: counts that contradict each other, or a value out of its range.

    >>> round(epsilon_lower_from_rates(1_000, 500, 1_000, 100), 2)
    1.36
    """
    check_significance(significance)
    check_delta(delta)
    for name, found, most in (
        ("true_positives", true_positives, members),
        ("false_positives", false_positives, nonmembers),
    ):
        if not 0 <= found <= most:
            raise InvalidInputError(name, found, f"it lies in 0 to {most}, the number of trials")
    each = significance / 2.0
    hit = float(success_rate_lower(members, true_positives, significance=each))
    spared = float(success_rate_lower(nonmembers, nonmembers - false_positives, significance=each))
    # What is spared is at least `spared`, what is missed at most 1 - hit.
    ratios = [
        math.log((gain - delta) / loss)
        for gain, loss in ((hit, 1.0 - spared), (spared, 1.0 - hit))
        if gain > delta
    ]
    return max(0.0, *ratios) if ratios else 0.0


def epsilon_lower_at_prior(
    guesses: ArrayLike, correct: ArrayLike, *, prior: ArrayLike, significance: float
) -> NDArray[np.float64]:
    """Return the pure-DP lower bound when each guess succeeds at `prior` without the mechanism.

    "Beyond the Worst Case", Theorem 3.2: under pure epsilon-DP the number of successes is
    stochastically dominated by independent Bernoulli(e^epsilon / (e^epsilon - 1 + 1/prior)), so
    the Clopper-Pearson limit p of the success rate gives epsilon >= logit(p) - logit(prior).

    Args:
        guesses: guesses made; arrays broadcast.
        correct: guesses that were right.
        prior: the probability of success without the mechanism, in [0, 1]; at 1 the bound is 0.
        significance: allowed probability that the bound is wrong.

    Raises:
        InvalidInputError: a prior outside [0, 1].

    The bound is as good as its prior: with an estimated prior it is an estimate.

    >>> round(float(epsilon_lower_at_prior(100, 90, prior=0.5, significance=0.05)), 2)
    1.63
    """
    chance = np.asarray(prior, dtype=np.float64)
    if not np.all((chance >= 0.0) & (chance <= 1.0)):
        raise InvalidInputError("prior", prior, "a probability lies in [0, 1]")
    rate = success_rate_lower(guesses, correct, significance=significance)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(rate) - np.log1p(-rate) - np.log(chance) + np.log1p(-chance)
    return np.where((rate > chance) & (chance < 1.0), bound, 0.0)

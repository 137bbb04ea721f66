"""The most that many guesses can achieve together under a declared guarantee.

"Beyond the Worst Case" (2025), Theorems 3.2, 3.3 and 3.5 and Corollary 3.4: whatever the attack,
its number of successes exceeds that of independent coin flips, each with the bound of one guess,
only as far as delta allows. The flips' count is Poisson-binomial: how many independent events, each
with its own probability, occur. It is computed exactly.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.special import betainc

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked, checked_delta
from privcore.upper_bounds.attack_success import checked_prior, success_bound
from privcore.upper_bounds.priors import checked_distribution

# Below this a probability is dropped, which keeps the recursion clear of slow subnormal numbers.
_NEGLIGIBLE = 1e-290


def poisson_binomial_tail(probabilities: ArrayLike) -> Floats:
    """Return P[S >= v] for v = 0, ..., n + 1, where S sums n independent Bernoulli variables.

    By recursion over the variables, which only adds and multiplies positive numbers: each value
    is right to a relative error of about n 1e-16, tails included, unlike that of a Fourier
    transform. Values below 1e-290 are 0. Time grows like n times the width of the distribution:
    under a second for 100,000 variables.

    Args:
        probabilities: shape (n,), in [0, 1].

    Returns:
        Shape (n + 2,), non-increasing from 1 to 0.

    Raises:
        InvalidInputError: a probability outside [0, 1], or another shape.
    """
    rule = "a probability lies in [0, 1]"
    probabilities = checked("probabilities", probabilities, 0.0, 1.0, rule)
    if probabilities.ndim != 1:
        raise InvalidInputError("shape of probabilities", probabilities.shape, "it is (n,)")
    masses = _masses(np.ascontiguousarray(probabilities))
    tail = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    # Summed from the small end the total is 1 up to rounding, and known to be 1.
    tail[0] = 1.0
    return np.asarray(np.minimum(tail, 1.0))


def binomial_tail(trials: int, *, probability: float) -> tuple[int, Floats]:
    """Return a value `first` and P[S >= v] for v = first, first + 1, ..., where S is binomial.

    From 1 at `first` to 0 at the end; what lies outside differs from 1 and 0 by less than 1e-290
    (Bernstein's inequality). The window grows like the distribution's width, so that it takes a
    moment for a thousand million trials too.

    Args:
        trials: n, at least 0.
        probability: of each, in [0, 1].
    """
    checked("trials", trials, 0, np.inf, "a number of trials is at least 0")
    checked("probability", probability, 0.0, 1.0, "a probability lies in [0, 1]")
    mean, depth = trials * probability, -math.log(_NEGLIGIBLE)
    reach = depth / 3.0 + math.sqrt(depth**2 / 9.0 + 2.0 * depth * mean * (1.0 - probability))
    first = max(0, math.floor(mean - reach))
    last = min(trials, math.ceil(mean + reach))
    below = np.arange(first, last)
    within = betainc(below + 1.0, trials - below, probability)  # P[S > v], without scipy.stats
    return first, np.concatenate([[1.0], within, [0.0]])


@njit(cache=True)
def _masses(probabilities: Floats) -> Floats:
    """P[S = v] for v = 0, ..., n."""
    masses = np.zeros(probabilities.size + 1)
    masses[0] = 1.0
    low, high = 0, 0
    for probability in probabilities:
        masses[high + 1] = masses[high] * probability
        for value in range(high, low, -1):
            stays = masses[value] * (1.0 - probability)
            masses[value] = stays + masses[value - 1] * probability
        masses[low] *= 1.0 - probability
        high += 1
        while masses[high] < _NEGLIGIBLE:
            masses[high] = 0.0
            high -= 1
        while masses[low] < _NEGLIGIBLE:
            masses[low] = 0.0
            low += 1
    return masses


@dataclass(frozen=True, slots=True, eq=False)
class SuccessCount:
    """The distribution that bounds an attack's number of successes.

    Made by `success_count` from the priors of one attack, by `success_count_over_runs` from those
    of the attempts that an attack made in several runs.

    Attributes:
        guesses: how many guesses are made.
        first: up to this many successes come with probability 1, as far as floats can tell.
        at_least: shape (values,): P[S* >= v] for v = first, first + 1, ..., where S* sums
            independent Bernoulli variables; from 1 to 0, and 0 for every larger v.
        failures: records times delta, the expected number of targets without any protection.
        averaged: whether probabilities are means over runs, to which delta adds `failures`
            (Corollary 3.4), or of one run of the mechanism on all targets (Theorem 3.5).
    """

    guesses: int
    first: int
    at_least: Floats
    failures: float
    averaged: bool = False

    @property
    def mean(self) -> float:
        """The largest expected number of successes: the sum of the bounds, plus `failures`."""
        expected = self.first + float(self.at_least[1:].sum()) + self.failures
        return min(expected, float(self.guesses))

    def tail(self, successes: int) -> float:
        """Return the largest probability of at least this many successes.

        Theorem 3.5 adds `alpha` times `failures`, where alpha is the largest of
        (P[S* >= v - j] - P[S* >= v])/j over j >= 1, or 0: what one lost target gains at most. As
        that is at most 1, a mean over runs is never smaller for the same priors.
        """
        if successes <= 0:
            return 1.0
        if successes > self.guesses:
            return 0.0
        place = min(successes - self.first, self.at_least.size - 1)
        if place <= 0:
            return 1.0
        tail = float(self.at_least[place])
        alpha = 1.0
        if not self.averaged:
            # Below `first` the gain stays the same and is shared by more targets.
            gains = self.at_least[place - 1 :: -1] - tail
            lost = successes - self.first - place + np.arange(1, place + 1)
            alpha = max(0.0, float(np.max(gains / lost)))
        return min(1.0, tail + alpha * self.failures)

    def tail_given(self, successes: int, *, lost: ArrayLike) -> float:
        """Return the largest probability of this many successes for a known number of lost targets.

        Theorem 3.3: `P[F + S* >= successes]`, where F targets lost all protection, independently of
        S*. It holds for a single output, if F is what delta cost at that output; only F's mean over
        outputs is known in general, records times delta, and `tail` takes the worst F of that mean.

        Args:
            successes: v.
            lost: shape (targets,): P[F = 0], P[F = 1], ...
        """
        lost = checked_distribution(lost)
        without = [self._tail_of_flips(successes - j) for j in range(lost.size)]
        return min(1.0, float(lost @ np.array(without)))

    def _tail_of_flips(self, successes: int) -> float:
        """P[S* >= successes]."""
        place = min(successes - self.first, self.at_least.size - 1)
        return 1.0 if place <= 0 else float(self.at_least[place])

    def confidence(self, successes: int) -> float:
        """Return the confidence that there are at most this many successes."""
        return 1.0 - self.tail(successes + 1)

    def limit(self, *, significance: float = 0.05) -> int:
        """Return the most successes that any attack has, with confidence 1 - significance.

        The probability of more is at most `significance`. Rounds up: it is the accepted end of
        the search's bracket.
        """
        checked("significance", significance, 0.0, 1.0, "a significance lies in [0, 1]")
        rejected, accepted = -1, self.guesses
        while accepted - rejected > 1:
            middle = (accepted + rejected) // 2
            if self.tail(middle + 1) <= significance:
                accepted = middle
            else:
                rejected = middle
        return accepted


def success_count(
    priors: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    guesses: int | None = None,
    records: int | None = None,
) -> SuccessCount:
    """Return the distribution that bounds how many guesses of an attack succeed.

    With delta 0 the number of successes is stochastically dominated by a sum of independent
    Bernoulli(`success_bound`) variables, for every single output (Theorem 3.2): for one output that
    is known, `priors` may be those of the very attempts that were made from it. For all outputs at
    once an attack may look before it chooses whom to guess on, if `priors` are those of the targets
    that are easiest to guess blindly. Equal priors make the sum binomial, which is fast for any
    number of guesses.

    Args:
        priors: shape (guesses,), success probability of the best blind guess on each target, of
            independent targets; or one number for all, with `guesses`.
        epsilon: declared epsilon, at least 0, under replacement of one target's secret.
        delta: declared delta, in [0, 1). With it, take for every target the prior of the attack
            that is best before the output is known.
        guesses: how many, where all have the same prior.
        records: targets that the attack could have guessed on, at least the guesses (the default):
            delta may strip any of them, so all count.

    Raises:
        InvalidInputError: a value out of its range, or fewer records than guesses.

    >>> count = success_count(0.5, guesses=1_000, epsilon=1.0, delta=1e-6)
    >>> count.limit(significance=0.05)
    754
    """
    priors = checked_prior(priors)
    if guesses is None:
        if priors.ndim != 1:
            raise InvalidInputError("shape of priors", priors.shape, "it is (guesses,)")
        guesses = priors.size
    elif priors.ndim:
        raise InvalidInputError("shape of priors", priors.shape, "with guesses it is one number")
    checked("guesses", guesses, 0, np.inf, "a number of guesses is at least 0")
    records = guesses if records is None else records
    if records < guesses:
        raise InvalidInputError("records", records, f"there are {guesses} guesses")
    checked("epsilon", epsilon, 0.0, np.inf, "epsilon is at least 0")
    chances = np.unique(success_bound(priors, epsilon=epsilon))
    if chances.size == 1:
        first, at_least = binomial_tail(guesses, probability=float(chances[0]))
    else:
        each = np.atleast_1d(success_bound(priors, epsilon=epsilon))
        first, at_least = 0, poisson_binomial_tail(each)
    failures = records * float(checked_delta(delta))
    return SuccessCount(guesses, first, at_least, failures)


def success_count_over_runs(
    priors: ArrayLike, *, epsilon: float, delta: float = 0.0
) -> SuccessCount:
    """Return the distribution that bounds an attack's successes, from the attempts that it made.

    Corollary 3.4 in full: over data, mechanism and attack, P[successes >= v] is at most the mean
    over runs of P[S* >= v] plus records times delta, where the flips of a run have the bounds of
    *its* attempts' priors. Where secrets are far from equally probable this promises more than the
    best blind attempts do: an attack that names rare secrets has small priors. The runs are taken
    for all there are: of few runs the mean may be too small by chance.

    Args:
        priors: shape (runs, targets): the prior of each target's attempts (`attempts_prior`) in
            each run of mechanism and attack on fresh data; 0 where nothing was attempted.
        epsilon: declared epsilon, at least 0, under replacement of one target's secret.
        delta: declared delta, in [0, 1).
    """
    priors = checked_prior(priors)
    if priors.ndim != 2 or not len(priors):
        raise InvalidInputError("shape of priors", priors.shape, "it is (runs, targets)")
    checked("epsilon", epsilon, 0.0, np.inf, "epsilon is at least 0")
    runs, targets = priors.shape
    at_least = np.zeros(targets + 2)
    for chances in success_bound(priors, epsilon=epsilon):
        at_least += poisson_binomial_tail(chances) / runs
    failures = targets * float(checked_delta(delta))
    return SuccessCount(targets, 0, at_least, failures, averaged=True)

"""Exact binomial bounds: success rates, and pure DP at any prior."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from privcore.exceptions import InvalidInputError


def success_rate_lower(
    guesses: ArrayLike, correct: ArrayLike, *, significance: float
) -> NDArray[np.float64]:
    """Return the Clopper-Pearson lower limit of a success rate; arrays broadcast.

    Exact: if guesses succeed independently at a rate of at most p, the limit exceeds p with
    probability at most `significance`. 0 where nothing succeeded.
    """
    made = np.asarray(guesses, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    limit = beta.ppf(significance, np.maximum(right, 1.0), made - right + 1.0)
    return np.where(right > 0.0, limit, 0.0)


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
    """
    chance = np.asarray(prior, dtype=np.float64)
    if not np.all((chance >= 0.0) & (chance <= 1.0)):
        raise InvalidInputError("prior", prior, "a probability lies in [0, 1]")
    rate = success_rate_lower(guesses, correct, significance=significance)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(rate) - np.log1p(-rate) - np.log(chance) + np.log1p(-chance)
    return np.where((rate > chance) & (chance < 1.0), bound, 0.0)

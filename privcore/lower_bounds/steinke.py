"""The bound of "Privacy Auditing with One (1) Training Run", for comparison with Algorithm 3."""

import math
from dataclasses import dataclass
from typing import ClassVar

from numba import njit

from privcore.exceptions import InvalidInputError

_SMALLEST = -700.0  # logarithm of a probability that a double still holds
_WIDEST = 700.0
_CLOSE = 1e-10


@dataclass(frozen=True, slots=True)
class Steinke:
    """(epsilon, delta)-DP, tested by the number of correct guesses alone.

    Steinke, Nasr and Jagielski 2023 (arXiv:2305.08846), Theorem 5.2: under (epsilon, delta)-DP the
    number of correct guesses exceeds v with probability at most beta + 2 m delta alpha, where W is
    binomial with success rate e^epsilon/(1 + e^epsilon), beta = P(W >= v) and
    alpha = max over i >= 1 of P(v - i <= W < v)/i.

    It stands beside the families for comparison: `ApproxDP` tests the same guarantee, and with
    many records of which few are guessed it proves more, as here delta is paid for every record.

    >>> from privcore.lower_bounds import Steinke, epsilon_lower
    >>> round(epsilon_lower(1_000, 100, 90, family=Steinke(), delta=1e-5), 2)
    1.63
    """

    name: ClassVar[str] = "steinke"

    def epsilon_lower(
        self,
        records: int,
        guesses: int,
        correct: int,
        *,
        delta: float,
        significance: float,
        shift: float = 0.0,
    ) -> float:
        """Return the largest epsilon that is rejected at `delta`; for counts already checked.

        Rounded towards zero: the rejected end of a bisection to 1e-10.

        Raises:
            InvalidInputError: a shift above 0, which the theorem does not know.
        """
        if shift != 0.0:
            raise InvalidInputError("shift", shift, "Steinke's theorem holds without a shift alone")
        return float(_largest_rejected(records, guesses, correct, delta, significance))


@njit(cache=True)
def _pvalue(records: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return beta + 2 records delta alpha, where correct/guesses exceeds the success rate."""
    log_right = -math.log1p(math.exp(-epsilon))
    log_term = (
        math.lgamma(guesses + 1.0)
        - math.lgamma(correct + 1.0)
        - math.lgamma(guesses - correct + 1.0)
        + guesses * log_right
        - (guesses - correct) * epsilon
    )
    odds = math.exp(epsilon)
    term = math.exp(log_term)
    beta = 0.0
    for k in range(correct, guesses + 1):
        beta += term
        term *= (guesses - k) / (k + 1) * odds
        if term <= 1e-18 * beta:
            break
    # Below `correct` the probabilities rise to the mode and then fall, so the mean of the last i
    # rises until it meets a probability below itself, and falls from there on.
    term, total, alpha = math.exp(log_term), 0.0, 0.0
    for k in range(correct - 1, -1, -1):
        factor = (k + 1) / (guesses - k) / odds
        if log_term < _SMALLEST:
            log_term += math.log(factor)
            term = math.exp(log_term)
            continue
        term *= factor
        if term < alpha:
            break
        total += term
        alpha = total / (correct - k)
    return beta + 2.0 * records * delta * alpha


@njit(cache=True)
def _largest_rejected(
    records: int, guesses: int, correct: int, delta: float, significance: float
) -> float:
    """Bisect epsilon between 0 and the log-odds of correct/guesses, where beta is about a half."""
    if 2 * correct <= guesses or _pvalue(records, guesses, correct, 0.0, delta) > significance:
        return 0.0
    low, high = 0.0, _WIDEST
    if correct < guesses:
        high = math.log(correct / (guesses - correct))
    while high - low > _CLOSE * max(1.0, high):
        middle = 0.5 * (low + high)
        if _pvalue(records, guesses, correct, middle, delta) <= significance:
            low = middle
        else:
            high = middle
    return low

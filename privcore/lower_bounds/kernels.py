"""Algorithm 3 of "Auditing f-DP in one run", compiled, and the searches over it.

Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235), Algorithm 3, with the total-variation
shift of "Observational Auditing of Privacy", Theorem 5. Facts that the shortcuts rest on, each
tested against a naive twin that takes none:

- F is convex, F(0) = 0 and F(x) <= x, so once `h` stops growing, `r` stops too: nothing changes.
- `r` and `h` only grow, so the first r + h > guesses/records decides.
- The first step grows `h` only if F(significance correct/records) - shift exceeds
  significance (guesses - correct)/records; otherwise nothing is ever rejected. At parameter 0,
  F(x) = x, so at correct <= guesses/2, and at significance correct/records <= shift, the answer is
  0; solved for the parameter it is the ceiling that brackets each search.
- With one guess the loop ends after its first step at r + h <= 2 significance/records: no
  rejection at a significance under 1/2.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.guarantees.normal import normal_quantile
from privcore.guarantees.tradeoffs import APPROX_DP, GAUSSIAN, inverse

# (kind, parameter, delta, knots_x, knots_y): a `privcore.guarantees.tradeoffs.Kernel`.
Numbers = tuple[int, float, float, NDArray[np.float64], NDArray[np.float64]]

_WIDEST = 700.0  # e^700 is the largest power of e that a double holds


@njit(cache=True)
def rejects(
    records: int,
    guesses: int,
    correct: int,
    significance: float,
    shift: float,
    tradeoff: Numbers,
) -> bool:
    """Whether the trade-off function is rejected at `significance`."""
    kind, parameter, delta, knots_x, knots_y = tradeoff
    r = significance * correct / records
    h = significance * (guesses - correct) / records
    limit = guesses / records
    for i in range(correct - 1, -1, -1):
        grown = inverse(kind, parameter, delta, knots_x, knots_y, r) - shift
        if grown <= h:
            return False
        r += i / (guesses - i) * (grown - h)
        h = grown
        if r + h > limit:
            return True
    return False


@njit(cache=True)
def ceiling(
    records: int,
    guesses: int,
    correct: int,
    significance: float,
    shift: float,
    kind: int,
    delta: float,
) -> float:
    """Return a parameter at and above which nothing is rejected; infinite if there is none.

    Closed forms of "the first step does not grow h": for the Gaussian family
    quantile(r) - quantile(h + shift), for the others from each branch of F.
    """
    r = significance * correct / records
    floor = significance * (guesses - correct) / records + shift
    if correct <= guesses / 2.0 or r <= shift or guesses <= 1:
        return 0.0
    if kind == GAUSSIAN:
        return max(0.0, normal_quantile(r) - normal_quantile(floor))
    if kind == APPROX_DP:
        if r > delta and floor == 0.0:
            return math.inf
        low = math.log((r - delta) / floor) if r > delta and floor > 0.0 else 0.0
        high = math.log((1.0 - delta - floor) / (1.0 - r)) if floor < 1.0 - delta else 0.0
        return max(0.0, low, high)
    return math.inf


@njit(cache=True)
def largest_rejected(
    records: int,
    guesses: int,
    correct: int,
    significance: float,
    shift: float,
    tradeoff: Numbers,
    known: float,
) -> float:
    """Return the largest parameter rejected, from below; `known` if none above it is.

    `known` is 0 or a parameter that another count already rejected: pruning asks only whether this
    count does better. The interval is halved until its ends are neighbours to 1e-13, and the
    rejected end is returned.
    """
    kind, _, delta, knots_x, knots_y = tradeoff
    high = ceiling(records, guesses, correct, significance, shift, kind, delta)
    if high <= known:
        return known
    if not rejects(
        records, guesses, correct, significance, shift, (kind, known, delta, knots_x, knots_y)
    ):
        return known
    low = known
    if math.isinf(high):
        high = max(1.0, 2.0 * known)
        while high < _WIDEST and rejects(
            records, guesses, correct, significance, shift, (kind, high, delta, knots_x, knots_y)
        ):
            low = high
            high *= 2.0
    while high - low > 1e-13 * max(1.0, high):
        middle = 0.5 * (low + high)
        if rejects(
            records, guesses, correct, significance, shift, (kind, middle, delta, knots_x, knots_y)
        ):
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def best_rejected(
    records: int,
    guesses: NDArray[np.int64],
    correct: NDArray[np.int64],
    significance: float,
    shift: float,
    tradeoff: Numbers,
) -> NDArray[np.float64]:
    """Per repetition the largest parameter that any of its counts rejects; shape (repetitions,)."""
    repetitions, fractions = guesses.shape
    best = np.zeros(repetitions)
    for repetition in range(repetitions):
        for fraction in range(fractions):
            best[repetition] = largest_rejected(
                records,
                guesses[repetition, fraction],
                correct[repetition, fraction],
                significance,
                shift,
                tradeoff,
                best[repetition],
            )
    return best

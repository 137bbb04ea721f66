"""Algorithm 3 of "Auditing f-DP in one run", compiled, and the searches over it.

Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235), Algorithm 3, with the total-variation
shift of "Observational Auditing of Label Privacy", Theorem 5. Facts that the shortcuts rest on,
each tested against a naive twin that takes none:

- F is convex, F(0) = 0 and F(x) <= x, so once `h` stops growing, `r` stops too: nothing changes.
- `r` and `h` only grow, so the first r + h > guesses/records decides.
- From step i on, `r` gains at most a = i/(guesses - i) of what `h` gains. So if some x ahead of
  `r` has F(x) - shift < h + (x - r)/a, then `r` never passes x: as long as it has not,
  h <= F(x) - shift, so its next value is at most r + a (F(x) - shift - h) < x. If besides x and
  that line's height add up to at most guesses/records, nothing is ever rejected.
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

from privcore.guarantees.families import (
    APPROX_DP,
    GAUSSIAN,
    Kernel,
    inverse,
    normal_cdf,
    normal_quantile,
)

Game = tuple[int, int, int]
"""How many records, guesses and right guesses a game has."""
Level = tuple[float, float]
"""At which significance, and with which shift, something is tested."""

_WIDEST = 700.0  # e^700 is the largest power of e that a double holds
_CLOSE = 1e-8  # how near the two ends of a search come; nearer for parameters above 1
_SMALL = 0.01  # a step below this part of r is followed by series that are exact in doubles
_ROOT = math.sqrt(2.0 * math.pi)
_CONTRACT = {"contract"}  # a fused multiply-add rounds once instead of twice


@njit(cache=True, fastmath=_CONTRACT)
def _exp_near_zero(x: float) -> float:
    square = x * x
    low = (1.0 + x) + square * (1.0 / 2.0 + x / 6.0)
    return low + square * square * ((1.0 / 24.0 + x / 120.0) + square * (1.0 / 720.0 + x / 5040.0))


@njit(cache=True, fastmath=_CONTRACT)
def _creep(
    z: float, mu: float, width: float, far: float, step: float
) -> tuple[float, float, float, float]:
    """Advance Phi(z) by `step`; return what Phi(z - mu) gains, and the new z, width and far.

    `width` is the reciprocal of the normal density at z, `far` the density at z - mu. The Taylor
    series of the quantile around Phi(z) gives the step in z, that of Phi around z - mu the gain,
    both to the seventh order, summed in pairs so that little waits for anything else. Several
    times faster than a quantile and an error function, and as exact for steps of at most `_SMALL`
    of either tail.
    """
    q, s = step * width, z * z
    q2 = q * q
    high = (24.0 * s + 46.0) * s + 7.0 + q * (z * ((20.0 * s + 163.0 / 3.0) * s + 127.0 / 6.0))
    high += q2 * ((((120.0 * s + 426.0) * s + 290.0) * s + 127.0 / 6.0) / 7.0)
    low = (1.0 + q * (0.5 * z)) + q2 * ((2.0 * s + 1.0) / 6.0 + q * (z * (6.0 * s + 7.0) / 24.0))
    d = q * (low + q2 * q2 * (high / 120.0))
    w = z - mu
    s = w * w
    d2 = d * d
    high = (s - 6.0) * s + 3.0 - d * (w * ((s - 10.0) * s + 15.0) / 6.0)
    high += d2 * ((((s - 15.0) * s + 45.0) * s - 15.0) / 42.0)
    low = (1.0 - d * (0.5 * w)) + d2 * ((s - 1.0) / 6.0 - d * (w * (s - 3.0) / 24.0))
    gain = far * d * (low + d2 * d2 * (high / 120.0))
    width *= _exp_near_zero(d * (z + 0.5 * d))
    far *= _exp_near_zero(-d * (w + 0.5 * d))
    return gain, z + d, width, far


@njit(cache=True)
def _yet_to_come(i: int, guesses: int, slope: float, step: float, least: float) -> float:
    """Return what r + h would still gain if F were straight from here, less steps under `least`."""
    total = 0.0
    while i > 1 and step > least and total < 2.0:
        i -= 1
        growth = slope * step
        step = i / (guesses - i) * growth
        total += growth + step
    return total


@njit(cache=True)
def excess(game: Game, level: Level, tradeoff: Kernel) -> float:
    """Return by how much r + h exceeds guesses/records at the end: rejected where above 0.

    The sign is Algorithm 3's decision. The size is for searches only: where the decision falls
    early, the rest of the way is extrapolated.
    """
    (records, guesses, correct), (significance, shift) = game, level
    kind, parameter, delta = tradeoff
    r = significance * correct / records
    h = significance * (guesses - correct) / records
    limit = guesses / records
    step = math.inf
    z, width, far = 0.0, 0.0, 0.0
    for i in range(correct - 1, -1, -1):
        if kind == GAUSSIAN and step < _SMALL * min(r, 1.0 - r) and i & 63 != 0:
            if width == 0.0:
                z = normal_quantile(r - step)
                width = _ROOT * math.exp(0.5 * z * z)
                far = math.exp(-0.5 * (z - parameter) ** 2) / _ROOT
            growth, z, width, far = _creep(z, parameter, width, far, step)
        elif kind == GAUSSIAN:
            growth = normal_cdf(normal_quantile(r) - parameter) - shift - h
            width = 0.0
        else:
            growth = inverse(kind, parameter, delta, r) - shift - h
        if growth <= 0.0:
            break
        h += growth
        before, step = step, i / (guesses - i) * growth
        r += step
        over = r + h - limit
        if over > 0.0:
            return over + _yet_to_come(i, guesses, growth / before, step, 1e-3 * over)
        if i & 3 == 0 and 0.0 < step < before:
            # A point twice as far ahead as steps that shrink at this rate would ever come.
            rest = step / (before - step)
            x = r + 2.0 * step * rest
            line = h + (x - r) * (guesses - i) / i
            if x + line <= limit:
                ahead = inverse(kind, parameter, delta, x) - shift
                if ahead < line:
                    to_come = _yet_to_come(i, guesses, growth / before, step, -1e-3 * over)
                    return min(over + to_come, 0.0)
    return r + h - limit


@njit(cache=True)
def rejects(game: Game, level: Level, tradeoff: Kernel) -> bool:
    """Return whether the trade-off function is rejected at this level."""
    return excess(game, level, tradeoff) > 0.0


@njit(cache=True)
def ceiling(game: Game, level: Level, tradeoff: Kernel) -> float:
    """Return a parameter at and above which nothing is rejected; infinite if there is none.

    Whatever the trade-off function's own parameter is.

    Closed forms of "the first step does not grow h": for the Gaussian family
    quantile(r) - quantile(h + shift), for (epsilon, delta) log((r - delta)/(h + shift)). The other
    branch of that F never grows h for longer: it does where r > delta + h + shift alone, and then
    ends at log((1 - delta - h - shift)/(1 - r)), which is less, as r + h + shift < 1.
    """
    (records, guesses, correct), (significance, shift), (kind, _, delta) = game, level, tradeoff
    r = significance * correct / records
    floor = significance * (guesses - correct) / records + shift
    if correct <= guesses / 2.0 or r <= shift or guesses <= 1:
        return 0.0
    if kind == GAUSSIAN:
        return max(0.0, normal_quantile(r) - normal_quantile(floor))
    if kind == APPROX_DP:
        if r <= delta:
            return 0.0
        return max(0.0, math.log((r - delta) / floor)) if floor > 0.0 else math.inf
    return math.inf


@njit(cache=True)
def _height(game: Game, level: Level, tradeoff: Kernel, parameter: float) -> float:
    """Logarithm of all that r + h gains over what it needs to; rejected where above 0."""
    kind, _, delta = tradeoff
    needed = game[1] / game[0] * (1.0 - level[0])
    gained = needed + excess(game, level, (kind, parameter, delta))
    return math.log(gained / needed) if gained > 0.0 else -math.inf


@njit(cache=True)
def largest_rejected(game: Game, level: Level, tradeoff: Kernel, known: float) -> float:
    """Return the largest parameter rejected, from below; `known` if none above it is.

    `known` is 0 or a parameter that another count already rejected: pruning asks only whether this
    count does better. A bracketing secant search (Illinois) ends when the rejected and the other
    end are neighbours, and returns the rejected one. It works on the logarithm of all that r + h
    gains against the logarithm of the distance from the ceiling, which is nearly a straight line:
    near the ceiling the first gain, and all that follows from it, is in proportion to that
    distance. Where the two ends do not close in by half in two steps, the interval is halved.
    """
    top = ceiling(game, level, tradeoff)
    if top <= known:
        return known
    low, low_height = known, _height(game, level, tradeoff, known)
    if low_height <= 0.0:
        return known
    high, high_height = top, -math.inf
    if math.isinf(top):
        high = max(1.0, 2.0 * known)
        high_height = _height(game, level, tradeoff, high)
        while high_height > 0.0 and high < _WIDEST:
            low, low_height = high, high_height
            high *= 2.0
            high_height = _height(game, level, tradeoff, high)
        top = 2.0 * high
    slow, last = 0, 0
    # An epsilon grows by less than its mu + 5 for a change in mu, at any delta above 1e-6.
    while high - low > _CLOSE / max(1.0, high):
        from_high = math.log(max(top - high, 0.1 * _CLOSE))
        from_low = math.log(top - low)
        if slow == 2:
            slow = 0
            middle = 0.5 * (low + high)
            if from_low - from_high > 1.0:
                middle = top - math.exp(0.5 * (from_low + from_high))
        elif math.isinf(high_height):
            middle = top - math.exp(0.5 * (from_low + from_high))
        else:
            part = high_height / (high_height - low_height)
            middle = top - math.exp(from_high + (from_low - from_high) * part)
        # Close to one end, step just far enough from it that the other end arrives there.
        margin = 0.45 * _CLOSE / max(1.0, high)
        middle = min(max(middle, low + margin), high - margin)
        height = _height(game, level, tradeoff, middle)
        width = high - low
        if height > 0.0:
            high_height *= 0.5 if last == 1 else 1.0
            low, low_height, last = middle, height, 1
        else:
            low_height *= 0.5 if last == -1 else 1.0
            high, high_height, last = middle, height, -1
        slow = slow + 1 if high - low > 0.5 * width else 0
    return low


@njit(cache=True)
def best_rejected(
    records: int,
    guesses: NDArray[np.int64],
    correct: NDArray[np.int64],
    level: Level,
    tradeoff: Kernel,
) -> NDArray[np.float64]:
    """Per repetition the largest parameter that any of its counts rejects; shape (repetitions,).

    The fraction that was best in the last repetition comes first, the others by their ceilings:
    once a ceiling is not above the best so far, nothing that follows is.
    """
    repetitions, fractions = guesses.shape
    best = np.zeros(repetitions)
    tops = np.empty(fractions)
    first = 0
    for repetition in range(repetitions):
        made, right = guesses[repetition], correct[repetition]
        for fraction in range(fractions):
            tops[fraction] = ceiling((records, made[fraction], right[fraction]), level, tradeoff)
        found = largest_rejected((records, made[first], right[first]), level, tradeoff, 0.0)
        while True:  # a sort would take a second and a half to compile
            fraction = int(np.argmax(tops))
            if tops[fraction] <= found:
                break
            tops[fraction] = -math.inf
            game = records, made[fraction], right[fraction]
            more = largest_rejected(game, level, tradeoff, found)
            if more > found:
                found, first = more, fraction
        best[repetition] = found
    return best

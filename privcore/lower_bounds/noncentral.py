"""Fisher's noncentral hypergeometric distribution: sums over one two-by-two table, bounded.

Of two arms with n1 and n0 records whose predictions are right independently, with odds that differ
by a factor e^a, the right ones of the first arm, given that t are right in both, have probability
proportional to C(n1, k) C(n0, t - k) e^(a k) (Fisher 1935; Fog 2008). Z(a) is the sum of these.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_TAIL = 1e-14  # what a tail may hold of the sum before it is bounded instead of added
_ROUNDING = 1e-10


_MOST_STEPS = 1 << 14
"""Ratios of neighbouring terms that are kept of one table."""


@njit(cache=True)
def log_normalizer_ratio(first: int, second: int, right: int, log_odds: float, gap: float) -> float:
    """Return a lower bound on log Z(log_odds) - log Z(log_odds + gap), tight to 1e-9.

    Args:
        first: n1, records of the arm whose odds are greater.
        second: n0, records of the other arm.
        right: t, right ones of both arms.
        log_odds: a.
        gap: at least 0.

    Terms are summed from the largest outwards until what is left, which falls faster than a
    geometric series since the terms are log-concave, is below 1e-14 of the sum: it is left out of
    the first sum and added, as that series, to the second.
    """
    ratio = np.empty((1, 1))
    _ratios((first, second, right), np.array([log_odds]), np.array([gap]), ratio)
    found: float = ratio[0, 0]
    return found


@njit(cache=True)
def log_wealth_of_tables(
    first: NDArray[np.int64],
    first_right: NDArray[np.int64],
    second: NDArray[np.int64],
    second_right: NDArray[np.int64],
    offset: NDArray[np.float64],
    log_odds: NDArray[np.float64],
    gaps: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the log of the product over tables of e^(gap k) Z(a) / Z(a + gap), a with offset.

    Tables have shape (tables,), `log_odds` (points,), `gaps` (gaps,); the answer (points, gaps).
    """
    wealth = np.zeros((log_odds.size, gaps.size))
    ratios = np.empty_like(wealth)
    for table in range(first.size):
        k1 = first_right[table]
        sizes = first[table], second[table], k1 + second_right[table]
        _ratios(sizes, log_odds + offset[table], gaps, ratios)
        for point in range(log_odds.size):
            for j in range(gaps.size):
                wealth[point, j] += gaps[j] * k1 + ratios[point, j]
    return wealth


@njit(cache=True)
def _ratios(
    sizes: tuple[int, int, int],
    log_odds: NDArray[np.float64],
    gaps: NDArray[np.float64],
    ratios: NDArray[np.float64],
) -> None:
    """Write the bound of `log_normalizer_ratio` for one table, shape (points, gaps).

    Z(a) is summed once for all gaps, and ratios of neighbouring terms are divided once for all.
    """
    first, second, right = sizes
    low, high = max(0, right - second), min(first, right)
    if low == high:
        for j in range(gaps.size):
            ratios[:, j] = -gaps[j] * low
        return
    begin = low
    if high - low > _MOST_STEPS:
        begin = max(low, _mode(first, second, right, log_odds[0], low, high) - _MOST_STEPS // 2)
    known = begin, np.full(min(high - begin, _MOST_STEPS), -1.0)
    for point in range(log_odds.size):
        a = log_odds[point]
        mode = _mode(first, second, right, a, low, high)
        total, _ = _sum(sizes, a, mode, known)
        for j in range(gaps.size):
            gap = gaps[j]
            raised_mode = _mode(first, second, right, a + gap, low, high)
            raised, rest = _sum(sizes, a + gap, raised_mode, known)
            between = _log_weight_ratio(sizes, mode, raised_mode, known)
            peaks = a * mode - (a + gap) * raised_mode - between
            # Rounding, far below this, must not favour a rejection either.
            ratios[point, j] = peaks + math.log(total) - math.log(raised + rest) - _ROUNDING


@njit(cache=True)
def _step(first: int, second: int, right: int, k: int) -> float:
    """Return the weight of k + 1 as a multiple of that of k, without the odds."""
    return (first - k) / (k + 1.0) * ((right - k) / (second - right + k + 1.0))


@njit(cache=True)
def _mode(first: int, second: int, right: int, log_odds: float, low: int, high: int) -> int:
    """Return where the terms are largest, by halving: their ratio falls."""
    odds = math.exp(log_odds)
    while low < high:
        middle = (low + high) // 2
        if _step(first, second, right, middle) * odds > 1.0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, inline="always")
def _known_step(
    sizes: tuple[int, int, int], k: int, known: tuple[int, NDArray[np.float64]]
) -> float:
    """Return `_step`, divided once where it is one of those that are kept."""
    begin, steps = known
    place = k - begin
    if place < 0 or place >= steps.size:
        return _step(sizes[0], sizes[1], sizes[2], k)
    if steps[place] < 0.0:
        steps[place] = _step(sizes[0], sizes[1], sizes[2], k)
    return float(steps[place])


@njit(cache=True)
def _sum(
    sizes: tuple[int, int, int],
    log_odds: float,
    mode: int,
    known: tuple[int, NDArray[np.float64]],
) -> tuple[float, float]:
    """Return the terms' sum as a multiple of the mode's, and a bound on what was left out."""
    first, second, right = sizes
    low, high = max(0, right - second), min(first, right)
    odds = math.exp(log_odds)
    total, rest = 1.0, 0.0
    term, k = 1.0, mode
    while k < high:
        ratio = _known_step(sizes, k, known) * odds
        if ratio < 1.0 and term * ratio <= _TAIL * total * (1.0 - ratio):
            rest += term * ratio / (1.0 - ratio)
            break
        term *= ratio
        total += term
        k += 1
    term, k = 1.0, mode
    while k > low:
        ratio = 1.0 / (_known_step(sizes, k - 1, known) * odds)
        if ratio < 1.0 and term * ratio <= _TAIL * total * (1.0 - ratio):
            rest += term * ratio / (1.0 - ratio)
            break
        term *= ratio
        total += term
        k -= 1
    return total, rest


@njit(cache=True)
def _log_weight_ratio(
    sizes: tuple[int, int, int], start: int, stop: int, known: tuple[int, NDArray[np.float64]]
) -> float:
    """Return the logarithm of the weight at `stop`, not below `start`, over that at `start`."""
    logarithm, product = 0.0, 1.0
    for k in range(start, stop):
        product *= _known_step(sizes, k, known)
        if product < 1e-200 or product > 1e200:
            logarithm += math.log(product)
            product = 1.0
    return logarithm + math.log(product)

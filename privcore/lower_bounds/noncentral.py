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

    Args:
        first: n1, records of the arm whose odds are greater; shape (tables,), as the next four.
        first_right: right ones of them.
        second: n0, records of the other arm.
        second_right: right ones of them.
        offset: of each table, added to the log-odds.
        log_odds: a, shape (points,).
        gaps: at least 0, shape (gaps,).

    Returns:
        A lower bound, shape (points, gaps), tight to 1e-9 a table.

    Terms are summed from the largest outwards until what is left, which falls faster than a
    geometric series since the terms are log-concave, is below 1e-14 of the sum: it is left out of
    Z(a) and added, as that series, to Z(a + gap).
    """
    wealth = np.zeros((log_odds.size, gaps.size))
    for table in range(first.size):
        n1, n0 = first[table], second[table]
        k1 = first_right[table]
        numbers = n1, n0, k1 + second_right[table]
        for point in range(log_odds.size):
            a = log_odds[point] + offset[table]
            mode, total = _peak(numbers, a)  # one for all gaps
            for j in range(gaps.size):
                ratio = _log_ratio(numbers, a, gaps[j], mode, total)
                wealth[point, j] += gaps[j] * k1 + ratio
    return wealth


@njit(cache=True)
def _peak(table: tuple[int, int, int], log_odds: float) -> tuple[int, float]:
    """Return the mode of (n1, n0, t), and the sum of all terms as a multiple of the mode's."""
    first, second, right = table
    low, high = max(0, right - second), min(first, right)
    mode = _mode(first, second, right, log_odds, low, high)
    return mode, _sum(first, second, right, log_odds, mode, low, high)[0]


@njit(cache=True)
def _log_ratio(
    table: tuple[int, int, int], log_odds: float, gap: float, mode: int, total: float
) -> float:
    """Return a lower bound on log Z(log_odds) - log Z(log_odds + gap), given the first `_peak`."""
    first, second, right = table
    low, high = max(0, right - second), min(first, right)
    if low == high:
        return -gap * low
    raised_mode = _mode(first, second, right, log_odds + gap, low, high)
    raised, rest = _sum(first, second, right, log_odds + gap, raised_mode, low, high)
    between = _log_weight_ratio(first, second, right, mode, raised_mode)
    peaks = log_odds * mode - (log_odds + gap) * raised_mode - between
    # Rounding, far below this, must not favour a rejection either.
    return peaks + math.log(total) - math.log(raised + rest) - _ROUNDING


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


@njit(cache=True)
def _sum(
    first: int, second: int, right: int, log_odds: float, mode: int, low: int, high: int
) -> tuple[float, float]:
    """Return the terms' sum as a multiple of the mode's, and a bound on what was left out."""
    odds = math.exp(log_odds)
    total, rest = 1.0, 0.0
    term, k = 1.0, mode
    while k < high:
        ratio = _step(first, second, right, k) * odds
        if ratio < 1.0 and term * ratio <= _TAIL * total * (1.0 - ratio):
            rest += term * ratio / (1.0 - ratio)
            break
        term *= ratio
        total += term
        k += 1
    term, k = 1.0, mode
    while k > low:
        ratio = 1.0 / (_step(first, second, right, k - 1) * odds)
        if ratio < 1.0 and term * ratio <= _TAIL * total * (1.0 - ratio):
            rest += term * ratio / (1.0 - ratio)
            break
        term *= ratio
        total += term
        k -= 1
    return total, rest


@njit(cache=True)
def _log_weight_ratio(first: int, second: int, right: int, start: int, stop: int) -> float:
    """Return the logarithm of the weight at `stop`, not below `start`, over that at `start`."""
    logarithm, product = 0.0, 1.0
    for k in range(start, stop):
        product *= _step(first, second, right, k)
        if product < 1e-200 or product > 1e200:
            logarithm += math.log(product)
            product = 1.0
    return logarithm + math.log(product)

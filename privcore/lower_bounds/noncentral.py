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

    A stratum's wealth is e^(gap k1) Z(a)/Z(a + gap), with Z(a) the coefficient of x^t in (1 +
    e^a x)^n1 (1 + x)^n0, t = k1 + k0, a >= 0 and gap > 0. It is convex in k1 and in k0.

    *Lemma.* Independent coins show heads with odds w_1 >= w_2 >= ... >= w_N > 0. Given t heads
    in all, the chance that the first shows tails is convex in t.

    *Proof.* Only ratios of odds matter given t, so let w_1 = 1. With E(x) = prod (1 + w_j x) =
    sum e_t x^t and C(x) = E(x)/(1 + x) = sum c_t x^t the chance is a_t = c_t/e_t. Given a line
    A + Bt, the coefficients of S = C - A E - B x E' have the signs of a_t - A - Bt, and S/E =
    1/(1 + x) - A - B sum w_j x/(1 + w_j x). Its poles are -1/w_j, all at most -1, with residue
    Bm/w_j, m how many coins share the odds; but 1 + Bm at -1. Between neighbouring poles whose
    residues have one sign S/E has a zero, and of m equal odds S keeps m - 1 zeros (all m where
    the residue vanishes). So if B >= 0 or B <= -1/m (m for the odds 1), S has at least N - 1
    negative zeros, and by Descartes' rule, for a polynomial of degree at most N, its
    coefficients change sign at most once. Else it has at least N - 2, and they change sign at
    most twice. If a_t were not convex, some A < 1 or A > 1 and B would put a_t above the line
    at one t and below it at both neighbours: two changes, so B is of the latter kind. If A < 1
    = a_0, the first sign is +, which makes three changes. If A > 1, S/E falls from +infinity at
    -1 to 1 - A < 0 at 0, which is one more negative zero and leaves one change. Neither can be.
    ∎

    *Theorem.* Let u = e^a and v = e^(a + gap). Turn the odds of the n1 coins from u to v one
    after the other: Z(a)/Z(a + gap) is a product of n1 factors (c_t + u c_{t-1})/(c_t + v
    c_{t-1}) = u/v + (1 - u/v) a_t, a_t the chance that a coin of odds v shows tails where no
    coin has larger odds (v >= u >= 1). Each factor is positive, falls in t (Newton: c_{t-1}/c_t
    rises) and is convex, and products of such are so too: that is k0. For k1 multiply by e^(gap
    t), that is, divide all odds by those of the first arm: now the n0 coins turn from 1/u to
    1/v, each factor is 1 + (v/u - 1) b_t, b_t the chance that a coin of odds 1/v shows heads
    where no coin has smaller odds; the lemma with heads and tails exchanged says that b_t is
    convex, and it rises. ∎
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

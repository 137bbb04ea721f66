"""Nights that are imagined, not played: tables as a model that remembers every label fills them.

An imagined night has the rows of tonight, by what the proxy says of them, and new labels. Of each
training record the target remembers an answer to its label by randomized response at a leak l, and
says the posterior that follows; of a holdout record likewise, of a label drawn anew, since no more
is known of it. `match` then sees of each record one of two values, so that tables need no records:
cells of the proxy's log-odds are enough, and what a night costs does not grow with its rows.

Tables are those of `match` but for its border cases: records past a cut stand beside all holdout
records past it, which chance leaves as they are in all but a few nights.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.matching import SHARES
from privcore.guarantees.families import normal_quantile

LEVELS = len(SHARES)
DRAWS = 6
"""Uniform numbers that a cell takes: in each arm for answers, and for labels of either answer."""

_MANY = 16.0  # a variance from which on a count is drawn as a normal number
_FEW = 8.0  # terms up to which a mean is summed
_SURE = 1e-9


Bets = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


class ImaginedCells(NamedTuple):
    """Cells of records that the proxy and the target see alike; all have shape (cells,).

    Attributes:
        stratum: of each, ascending from 0.
        records: training records.
        held: holdout records.
        chance: that an unseen record has the looked-at class.
        answered: that the answer is the class.
        right: that a training record has the class whose answer is another, or the class;
            shape (2, cells).
        granted: what the recalibrated proxy and the proxy say of the class; shape (2, cells).
        levels: of how many of `SHARES` a record is part whose answer is another class, or the
            class; shape (2, cells). 0 leaves it out.
        sides: whether the class is then predicted; shape (2, cells).
    """

    stratum: NDArray[np.int64]
    records: NDArray[np.int64]
    held: NDArray[np.int64]
    chance: NDArray[np.float64]
    answered: NDArray[np.float64]
    right: NDArray[np.float64]
    granted: NDArray[np.float64]
    levels: NDArray[np.int64]
    sides: NDArray[np.int64]


def imagined_log_wealth(
    uniforms: NDArray[np.float64],
    cells: ImaginedCells,
    *,
    log_odds: float,
    log_cap: float,
    bets: Bets,
    wins: bool,
) -> NDArray[np.float64]:
    """Return the log e-values of imagined nights against one reference, (draws, strategies).

    As `night_log_wealth` orders them: bets on all records, and the night's own.

    Args:
        uniforms: shape (draws, `DRAWS`, cells).
        cells: of the night.
        log_odds: that are tested.
        log_cap: of the stakes.
        bets: gaps on all records, gaps of the night's own bets, and the weight of each share and
            gap, shape (shares, gaps); gaps in units of 1/sqrt(effective records).
        wins: whether bets may win.
    """
    # A compiled function is kept by its types: as a plain tuple, no later name of them breaks it.
    made: NDArray[np.float64] = _every_night(uniforms, tuple(cells), log_odds, log_cap, bets, wins)
    return made


@njit(cache=True)
def _every_night(
    uniforms: NDArray[np.float64],
    cells: Any,
    log_odds: float,
    log_cap: float,
    bets: Bets,
    wins: bool,  # noqa: FBT001  # numba takes positional arguments
) -> NDArray[np.float64]:
    units, own, weights = bets
    made = np.empty((len(uniforms), units.size + 1))
    mean = np.empty(weights.shape)
    for draw in range(len(uniforms)):
        counts, whole = _counts(uniforms[draw], cells)
        for level in range(LEVELS):
            tables, effective = _tables(counts[level], whole)
            _bet(mean[level], tables, log_odds, _capped(own, effective, log_cap), wins)
            if level == 0:
                _bet(made[draw], tables, log_odds, _capped(units, effective, log_cap), wins)
        best, total = -math.inf, 0.0
        for level in range(LEVELS):
            for gap in range(own.size):
                best = max(best, mean[level, gap])
        for level in range(LEVELS):
            for gap in range(own.size):
                total += weights[level, gap] * math.exp(mean[level, gap] - best)
        made[draw, -1] = best + math.log(total)
    return made


@njit(cache=True)
def _capped(units: NDArray[np.float64], effective: float, cap: float) -> NDArray[np.float64]:
    """Return gaps of so many effective records, at most the cap."""
    gaps = np.empty(units.size)
    for place in range(units.size):
        gaps[place] = min(units[place] / math.sqrt(effective), cap)
    return gaps


@njit(cache=True)
def _bet(
    made: NDArray[np.float64],
    tables: NDArray[np.float64],
    log_odds: float,
    gaps: NDArray[np.float64],
    wins: bool,  # noqa: FBT001
) -> None:
    """Put the log wealth of each gap at the beginning of `made`; at most 0 where no bet may win."""
    found = _log_wealth(tables, log_odds, gaps)
    for place in range(gaps.size):
        made[place] = found[place] if wins else min(found[place], 0.0)


@njit(cache=True)
def _counts(
    uniforms: NDArray[np.float64], cells: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a night leaves in each level, stratum and side, and of the holdout as a whole.

    Shapes (levels, strata, sides, 2 arms, 4) and (strata, 4): records, those with the class, and
    the sums of what both versions of the proxy say of them.
    """
    at, trained, kept_back, chances, answered, right, granted, levels, sides = cells
    strata = at[-1] + 1
    counts = np.zeros((LEVELS, strata, 2, 2, 4))
    whole = np.zeros((strata, 4))
    for i in range(at.size):
        for arm in range(2):
            records = kept_back[i] if arm else trained[i]
            if records == 0:
                continue
            answers = _binomial(uniforms[3 * arm, i], records, answered[i])
            for answer in range(2):
                level = levels[answer, i]
                made = answers if answer else records - answers
                if level == 0 or made == 0:
                    continue
                chance = chances[i] if arm else right[answer, i]
                having = _binomial(uniforms[3 * arm + 1 + answer, i], made, chance)
                row = counts[level - 1, at[i], sides[answer, i], arm]
                _add(row, made, having, granted[:, i])
                if arm:
                    _add(whole[at[i]], made, having, granted[:, i])
    # The surest are part of every larger share. Loops here and below, since whole arrays more than
    # double the seconds that a first audit waits for this module to compile (9.3 against 4.0).
    flat = counts.reshape(LEVELS, -1)
    for level in range(LEVELS - 2, -1, -1):
        for place in range(flat.shape[1]):
            flat[level, place] += flat[level + 1, place]
    return counts, whole


@njit(cache=True)
def _add(sums: NDArray[np.float64], made: int, having: int, granted: NDArray[np.float64]) -> None:
    sums[0] += made
    sums[1] += having
    sums[2] += made * granted[0]
    sums[3] += made * granted[1]


@njit(cache=True)
def _tables(
    counts: NDArray[np.float64], whole: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return tables (n1, k1, n0, k0, offset) of one share, and what their comparison is worth."""
    tables = np.empty((counts.shape[0] * 2, 5))
    unaided = np.empty(counts.shape[0] * 2)
    made, effective = 0, 0.0
    for stratum in range(counts.shape[0]):
        for side in (1, 0):
            one, other = counts[stratum, side, 0], counts[stratum, side, 1]
            if one[0] < 0.5 or other[0] < 0.5:
                continue
            sign = 1.0 if side else -1.0
            offset = max(
                sign * (_logit(one[2], one[0]) - _logit(other[2], other[0])),
                sign * (_logit(one[3], one[0]) - _logit(other[3], other[0])),
            )
            right = one[1] if side else one[0] - one[1]
            held_right = other[1] if side else other[0] - other[1]
            row = tables[made]
            row[0], row[1], row[2], row[3] = one[0], right, other[0], held_right
            row[4] = max(offset, 0.0)
            unaided[made] = _unaided(other, whole[stratum], sign)
            effective += one[0] * other[0] / (one[0] + other[0])
            made += 1
    tables, unaided = tables[:made], unaided[:made]
    _raise_control(tables, unaided)
    return tables, max(effective, 0.1)


@njit(cache=True)
def _logit(part: float, whole: float) -> float:
    return math.log(part) - math.log(whole - part)


@njit(cache=True)
def _unaided(taken: NDArray[np.float64], whole: NDArray[np.float64], sign: float) -> float:
    """Return how many of the taken are right if predictions tell no more than the proxy."""
    if whole[1] < 0.5 or whole[0] - whole[1] < 0.5:
        return 0.0
    likelier = min(
        sign * (_logit(taken[2], taken[0]) - _logit(whole[2], whole[0])),
        sign * (_logit(taken[3], taken[0]) - _logit(whole[3], whole[0])),
    )
    chance = 1.0 / (1.0 + math.exp(-sign * _logit(whole[1], whole[0]) - likelier))
    return float(taken[0]) * chance


@njit(cache=True)
def _raise_control(tables: NDArray[np.float64], unaided: NDArray[np.float64]) -> None:
    """Raise the control to the unaided in sum, as `Matched.no_worse_than_unaided` does."""
    in_sum = 0.0
    for i in range(len(tables)):
        in_sum += unaided[i] - tables[i, 3]
    if in_sum <= 0.0:
        return
    total, reached, before = 0.0, 0.0, 0.0
    for i in range(len(tables)):
        total += max(unaided[i] - tables[i, 3], 0.0)
    for i in range(len(tables)):
        reached += max(unaided[i] - tables[i, 3], 0.0) * (in_sum / total)
        now = math.floor(reached + 1e-9)
        tables[i, 3] = min(tables[i, 3] + now - before, tables[i, 2])
        before = now


@njit(cache=True)
def _log_wealth(
    tables: NDArray[np.float64], log_odds: float, gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log of the product of e^(gap k1) Z(a)/Z(a + gap), `gaps` ascending.

    log Z(a + gap) - log Z(a) is the integral of the mean of k1 over [a, a + gap]: by Gauss and
    Legendre, two points between neighbouring gaps.
    """
    wealth = np.zeros(gaps.size)
    node = 0.5 - 0.5 / math.sqrt(3.0)
    for i in range(len(tables)):
        row = tables[i]
        first, right, second, held_right, offset = row[0], row[1], row[2], row[3], row[4]
        both, a = right + held_right, log_odds + offset
        grown, before = 0.0, 0.0
        for j in range(gaps.size):
            width = gaps[j] - before
            low = _mean(first, second, both, math.exp(a + before + node * width))
            high = _mean(first, second, both, math.exp(a + gaps[j] - node * width))
            grown += 0.5 * width * (low + high)
            wealth[j] += gaps[j] * right - grown
            before = gaps[j]
    return wealth


@njit(cache=True)
def _mean(first: float, second: float, both: float, odds: float) -> float:
    """Return the mean of Fisher's noncentral hypergeometric distribution.

    It solves E[k (n0 - t + k)] = odds E[(n1 - k)(t - k)], which is exact; the variance in it is
    Cornfield's (1956) at the mean that a variance of 0 gives. A few terms are summed instead.
    """
    low, high = max(0.0, both - second), min(first, both)
    if high - low <= _FEW:
        total, moment, term, k = 1.0, low, 1.0, low
        while k < high - 0.5:
            term *= odds * (first - k) * (both - k) / ((k + 1.0) * (second - both + k + 1.0))
            k += 1.0
            total += term
            moment += term * k
        return moment / total
    mean = _root(first, second, both, odds, 0.0)
    records = first + second
    mean = min(max(mean, low + _SURE), high - _SURE)
    inverse = 1.0 / mean + 1.0 / (first - mean) + 1.0 / (both - mean)
    variance = records / (records - 1.0) / (inverse + 1.0 / (second - both + mean))
    return min(max(_root(first, second, both, odds, variance), low), high)


@njit(cache=True)
def _root(first: float, second: float, both: float, odds: float, variance: float) -> float:
    """Return the k that solves k (n0 - t + k) + v = odds ((n1 - k)(t - k) + v)."""
    square, linear = 1.0 - odds, second - both + odds * (first + both)
    constant = (1.0 - odds) * variance - odds * first * both
    root = math.sqrt(max(linear * linear - 4.0 * square * constant, 0.0))
    return -2.0 * constant / (linear + root)


@njit(cache=True)
def _binomial(uniform: float, number: int, chance: float) -> int:
    """Return the quantile of a binomial distribution; where it is wide, that of a normal one."""
    if number <= 1:  # most cells of a small audit
        return int(number == 1 and uniform > 1.0 - chance)
    if chance > 0.5:
        return number - _binomial(1.0 - uniform, number, 1.0 - chance)
    if chance <= 0.0:
        return 0
    variance = number * chance * (1.0 - chance)
    if variance > _MANY:
        wide = number * chance + math.sqrt(variance) * normal_quantile(uniform)
        return int(min(max(wide + 0.5, 0.0), float(number)))
    odds = chance / (1.0 - chance)
    term = math.exp(number * math.log1p(-chance))
    reached, k = term, 0
    while reached < uniform and k < number:
        term *= odds * (number - k) / (k + 1.0)
        k += 1
        reached += term
    return k

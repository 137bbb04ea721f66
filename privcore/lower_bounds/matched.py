"""The control as the counterfactual: bounds that need no faith in the proxy's skill.

What is assumed instead is **assumption E**: had a training record's label been replaced by a fresh
draw before training, its prediction would have been right, on average over its stratum, no more
often than that of the matched holdout records (in odds, up to the table's offset). It holds where
the arms are exchangeable given what was drawn (E1: proxy, sampling and selection treat both alike;
`compare_arms` tests it) and the target ranks unseen records of a stratum no worse than training
records apart from their own labels (E2). `docs/evidence/statistics.md` says where they fail, and
why something must be assumed.

*Fisher's noncentral hypergeometric distribution* is one table's. Of two arms with n1 and n0 records
whose predictions are right independently, with odds that differ by a factor e^a, the right ones of
the first arm, given that t are right in both, have probability proportional to
C(n1, k) C(n0, t - k) e^(a k) (Fisher 1935; Fog 2008). Z(a), bounded here, is the sum of these.

*Designs* of a night's test are records beside a matched holdout, or pairs of records of both arms.
Both answer the same questions of the same stakes, so that evidence, windows, standing and verdict
do not care which it was.
"""

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit

from privcore.attacks.matching import SHARES, Matched
from privcore.attacks.membership import Paired
from privcore.lower_bounds.betting import BLOCK, EPSILONS, Stakes, stakes_for
from privcore.lower_bounds.claims import Claim

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
            mode = _mode(numbers, a)
            total, _ = _sum(numbers, a, mode)  # one for all gaps
            for j in range(gaps.size):
                ratio = _log_ratio(numbers, a, gaps[j], mode, total)
                wealth[point, j] += gaps[j] * k1 + ratio
    return wealth


_Table = tuple[int, int, int]
"""The numbers n1, n0 and t of a table."""


@njit(cache=True)
def _log_ratio(table: _Table, log_odds: float, gap: float, mode: int, total: float) -> float:
    """Return a lower bound on log Z(log_odds) - log Z(log_odds + gap).

    Given the first one's mode, and its terms' sum as a multiple of the mode's.
    """
    low, high = _ends(table)
    if low == high:
        return -gap * low
    raised_mode = _mode(table, log_odds + gap)
    raised, rest = _sum(table, log_odds + gap, raised_mode)
    between = _log_weight_ratio(table, mode, raised_mode)
    peaks = log_odds * mode - (log_odds + gap) * raised_mode - between
    # Rounding, far below this, must not favour a rejection either.
    return peaks + math.log(total) - math.log(raised + rest) - _ROUNDING


@njit(cache=True)
def _ends(table: _Table) -> tuple[int, int]:
    """Return the least and the most that may be right of the first arm."""
    first, second, right = table
    return max(0, right - second), min(first, right)


@njit(cache=True)
def _step(table: _Table, k: int) -> float:
    """Return the weight of k + 1 as a multiple of that of k, without the odds."""
    first, second, right = table
    return (first - k) / (k + 1.0) * ((right - k) / (second - right + k + 1.0))


@njit(cache=True)
def _mode(table: _Table, log_odds: float) -> int:
    """Return where the terms are largest, by halving: their ratio falls."""
    (low, high), odds = _ends(table), math.exp(log_odds)
    while low < high:
        middle = (low + high) // 2
        if _step(table, middle) * odds > 1.0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _sum(table: _Table, log_odds: float, mode: int) -> tuple[float, float]:
    """Return the terms' sum as a multiple of the mode's, and a bound on what was left out."""
    (low, high), odds = _ends(table), math.exp(log_odds)
    total, rest = 1.0, 0.0
    for end in (high, low):
        term, k = 1.0, mode
        while k != end:
            ratio = _step(table, k) * odds if end > k else 1.0 / (_step(table, k - 1) * odds)
            if ratio < 1.0 and term * ratio <= _TAIL * total * (1.0 - ratio):
                rest += term * ratio / (1.0 - ratio)
                break
            term *= ratio
            total += term
            k += 1 if end > k else -1
    return total, rest


@njit(cache=True)
def _log_weight_ratio(table: _Table, start: int, stop: int) -> float:
    """Return the logarithm of the weight at `stop`, not below `start`, over that at `start`."""
    logarithm, product = 0.0, 1.0
    for k in range(start, stop):
        product *= _step(table, k)
        if product < 1e-200 or product > 1e200:
            logarithm += math.log(product)
            product = 1.0
    return logarithm + math.log(product)


Tables = Matched | Paired
"""Comparisons for a prediction's success: with a control's, or a coin's."""

# How a night bets: on each of `matching.SHARES` by this weight, at each of these gaps, in units of
# 1/sqrt(effective records), by that weight. Fixed before any audit.
SHARE_WEIGHTS = (0.65, 0.14, 0.07, 0.07, 0.07)
GAPS = (4.0, 8.0, 16.0, 32.0)
GAP_WEIGHTS = (0.3, 0.3, 0.25, 0.15)
NIGHT_GAPS = (2.5, 10.0)
"""Bets of nights that are to be multiplied: on all records, at these gaps. Four gaps from 2 to 16
prove no more in any world that was measured, and less of a weak leak."""
REFERENCES = 2
"""References of a prediction: the proxy, and a student where there is one. Each has half of the
stake; where there is none, the proxy stands for both."""
NIGHT_STRATEGIES = (len(NIGHT_GAPS) + 1) * REFERENCES
"""Strategies that nights multiply, each by itself (`night_log_wealth`)."""
LARGEST_GAP = 6.0

# The end of each block of epsilons on which stakes are constant.
_BLOCK_ENDS = np.arange(BLOCK, EPSILONS[-1] + BLOCK, BLOCK) - 1e-9


def matched_epsilon_lower(
    tables: Sequence[Tables], *, stakes: Stakes, proxy_doubtful: bool = False
) -> float:
    """Return the largest epsilon for replacing a label that the matched records reject.

    In a stratum let n1 training and n0 holdout records be matched, k1 and k0 of them predicted
    rightly, t = k1 + k0. Given the model, the holdout's labels and all other labels,
    (epsilon, 0)-DP multiplies the odds that one training record's prediction is right by at most
    e^epsilon, compared with a fresh draw of its label. Replacing one outcome after the other by
    independent coins with those odds (`Stakes`), the training arm becomes independent coins whose
    mean has, under assumption E, at most e^epsilon times the odds of the control's mean. Given t
    the first arm's right ones then follow Fisher's noncentral hypergeometric distribution at
    log-odds ratio at most epsilon, whatever the common rate, so that

        e^(gap k1) Z(epsilon) / Z(epsilon + gap)

    has expectation at most 1 (Turner and Gruenwald 2023, arXiv:2302.11401, conditional on the
    margins). It grows with each training record that is right, which makes the composite null its
    border, and it is convex in k1 and in k0 (proved in `log_wealth_of_tables`; epsilon and
    offset are at least 0), so that records of unequal rates make it smaller (Hoeffding 1956): no
    stratum has to be homogeneous. The product over strata and the mean over gaps and shares are
    e-values again; Markov's inequality gives the bound. With fixed stakes it falls as epsilon
    grows, so on each block of epsilons one point answers for all below.

    Pairs (`pair`) have no control: of d pairs k are right, independently with odds of at most
    e^epsilon, so e^(gap k) / (1 - p + p e^gap)^d is the e-value, p = e^epsilon / (1 + e^epsilon).
    Neither E nor matching is needed for it; `pair` says what is.

    Args:
        tables: from `match` or `pair`, one for each of `SHARES`; of several references one after
            the other. The mean of their e-values is an e-value.
        stakes: cap, price and significance, from `stakes_for` with all records that played.
        proxy_doubtful: whether the arms look so different, given what the proxy says, that bets
            against it, the first of the references, may not win: of each e-value and 1 the smaller
            counts. That is at most the e-value, so whatever decides it, also after labels were
            read, the bound stays valid where it was.

    *Assumes* E of the records that were really matched, independent labels given the features, and
    that the holdout is drawn like the training records. *Does not say* that the loss is small when
    it is small: the ceiling says what as many holdout records could show.
    """
    points = [float(point) for point in stakes.points()]

    def rejected(place: int) -> bool:
        epsilon = points[place]
        wealth = matched_log_wealth(tables, epsilon, stakes=stakes, proxy_doubtful=proxy_doubtful)
        return wealth >= stakes.log_needed(epsilon)

    low = -1
    for end in _BLOCK_ENDS:
        high = bisect.bisect_left(points, end) - 1
        if not rejected(high):
            break
        low = high
    else:
        return points[-1]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return points[low] if low >= 0 else 0.0


def matched_log_wealth(
    tables: Sequence[Tables], epsilon: float, *, stakes: Stakes, proxy_doubtful: bool = False
) -> float:
    """Return the logarithm of the e-value against replacing a label at `epsilon`."""
    own = _by_reference(tables, (), np.array([epsilon]), stakes, doubtful=proxy_doubtful)
    return float(log_mean(np.concatenate(own).ravel(), np.ones(len(own))))


def night_log_wealth(
    tables: Sequence[Tables],
    *,
    epsilons: NDArray[np.float64],
    stakes: Stakes,
    proxy_doubtful: bool = False,
) -> NDArray[np.float64]:
    """Return the log e-values of the strategies that nights multiply: (strategies, epsilons).

    Against each reference a strategy is a bet on all records at one of `NIGHT_GAPS`, or the night's
    own e-value (`matched_log_wealth`), which bets on the surest as well: where few labels leak, and
    whole, the former lose every night. Nights multiply each by itself, and mix them afterwards.
    """
    made = _by_reference(tables, NIGHT_GAPS, epsilons, stakes, doubtful=proxy_doubtful)
    return np.concatenate(made * (REFERENCES // len(made)))


def _by_reference(
    tables: Sequence[Tables],
    units: tuple[float, ...],
    epsilons: NDArray[np.float64],
    stakes: Stakes,
    *,
    doubtful: bool,
) -> list[NDArray[np.float64]]:
    """Return each reference's log e-values: bets on all records in these units, the night's own."""
    found, shares = [], len(SHARE_WEIGHTS)
    for first in range(0, len(tables), shares):
        wins = not (doubtful and first == 0)
        own = [_bets(one, GAPS, epsilons, stakes, wins) for one in tables[first : first + shares]]
        mean = log_mean(np.concatenate(own), np.outer(SHARE_WEIGHTS, GAP_WEIGHTS).ravel())
        found.append(np.vstack([_bets(tables[first], units, epsilons, stakes, wins), mean]))
    return found


def _bets(
    one: Tables,
    units: tuple[float, ...],
    epsilons: NDArray[np.float64],
    stakes: Stakes,
    wins: bool,  # noqa: FBT001  # whether the reference may win
) -> NDArray[np.float64]:
    """Return the log e-values of bets, (gaps, epsilons); without records the stake is kept."""
    wealth = np.zeros((len(units), epsilons.size))
    if one.records.size and units:
        caps = [stakes.log_cap(float(epsilon)) for epsilon in epsilons]
        for cap, alike in itertools.groupby(range(epsilons.size), key=caps.__getitem__):
            places = list(alike)
            wealth[:, places] = tables_log_wealth(one, epsilons[places], _gaps(one, units, cap)).T
    return wealth if wins else np.minimum(wealth, 0.0)


def log_mean(logarithms: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of a weighted mean over the first axis, never above the largest."""
    best: NDArray[np.float64] = logarithms.max(axis=0)
    mean: NDArray[np.float64] = best + np.log1p(
        weights @ np.expm1(logarithms - best) / weights.sum()
    )
    return mean


def _gaps(one: Tables, units: tuple[float, ...], log_cap: float) -> NDArray[np.float64]:
    effective = one.effective if isinstance(one, Matched) else float(one.records.sum())
    return np.minimum(np.array(units) / math.sqrt(effective), min(LARGEST_GAP, log_cap))


def tables_log_wealth(
    one: Tables, epsilons: NDArray[np.float64], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log e-values of bets on one set of tables, shape (epsilons, gaps)."""
    if isinstance(one, Paired):
        chance = expit(epsilons)[:, None]
        growth = np.log1p(chance * np.expm1(gaps))
        return np.asarray(gaps * one.right.sum() - one.records.sum() * growth)
    # Columns of other arrays are made whole: the kernel would be compiled anew for each layout.
    wealth: NDArray[np.float64] = log_wealth_of_tables(
        np.ascontiguousarray(one.records),
        np.ascontiguousarray(one.right),
        np.ascontiguousarray(one.control),
        np.ascontiguousarray(one.control_right),
        np.ascontiguousarray(one.offset),
        np.ascontiguousarray(epsilons),
        gaps,
    )
    return wealth


MATCHED = "matched"
"""The headline's method: training records matched with holdout records, under assumption E."""

PAIRED = "paired"
"""The headline's method for membership: pairs of a training and a holdout record."""


@dataclass(frozen=True, slots=True)
class MatchedRecords:
    """Training records beside matched holdout records; `matched_epsilon_lower` has the proof.

    A test of every claim at every epsilon, at stakes that delta can pay.

    Args:
        tables: from `match`; with a student those against it after those against the proxy.
        records: training records that play.
        control: holdout records.
        classes: number of classes.
        proxy_doubtful: whether bets against the proxy may not win.
        choices: records among which the target chose each of them, on average (`Stakes`).
    """

    tables: Sequence[Tables]
    records: int
    control: int | None
    classes: int
    method: str = MATCHED
    proxy_doubtful: bool = False
    choices: float = 1.0

    def stakes(self, claim: Claim, *, nights: int = 1) -> Stakes:
        """Return the stakes that these records can pay, over this many nights."""
        return stakes_for(
            claim,
            records=self.records,
            choices=self.choices,
            control=self.control,
            classes=self.classes,
            nights=nights,
            references=len(self.tables) // len(SHARES),
        )

    def epsilon_lower(self, stakes: Stakes) -> float:
        """Return the largest epsilon for replacing a label that is rejected."""
        return matched_epsilon_lower(self.tables, stakes=stakes, proxy_doubtful=self.proxy_doubtful)

    def epsilon_ceiling(self, stakes: Stakes) -> float:
        """Return what it would have been if every prediction had been correct.

        The holdout stays as it is: with few of its records no attack can prove much.
        """
        return self.all_right().epsilon_lower(stakes)

    def all_right(self) -> "MatchedRecords":
        """Return the test as if every prediction of a training label had been correct."""
        return replace(self, tables=[one.all_right() for one in self.tables])

    @property
    def held(self) -> int:
        """Number of holdout records of the test: with more of them it proves more."""
        return self.records if self.control is None else self.control

    def log_wealth(self, epsilon: float, stakes: Stakes) -> float:
        """Return the logarithm of the e-value against replacing a label at epsilon."""
        return matched_log_wealth(
            self.tables, epsilon, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )

    def night_log_wealth(
        self, epsilons: NDArray[np.float64], stakes: Stakes
    ) -> NDArray[np.float64]:
        """Return those of the strategies that nights multiply, shape (strategies, epsilons)."""
        return night_log_wealth(
            self.tables, epsilons=epsilons, stakes=stakes, proxy_doubtful=self.proxy_doubtful
        )


@dataclass(frozen=True, slots=True)
class PairedRecords(MatchedRecords):
    """Pairs of a training and a holdout record, for membership; `pair` has the reasoning.

    Args:
        tables: from `pair`.
        records: of the smaller arm: at most this many pairs pay for delta.
    """

    control: None = None
    classes: int = 2
    method: str = PAIRED

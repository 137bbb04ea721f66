"""The control as the counterfactual: bounds that need no faith in the proxy's skill.

What is assumed instead is **assumption E**: had a training record's label been replaced by a fresh
draw before training, its prediction would have been right, on average over its stratum, no more
often than that of the matched holdout records (in odds, up to the table's offset). It holds where
the arms are exchangeable given what was drawn (E1: proxy, sampling and selection treat both alike;
`compare_arms` tests it) and the target ranks unseen records of a stratum no worse than training
records apart from their own labels (E2). `docs/evidence/statistics.md` says where they fail, and
why something must be assumed.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.attacks.matching import Matched
from privcore.attacks.pairing import Paired
from privcore.lower_bounds.noncentral import log_wealth_of_tables
from privcore.lower_bounds.stakes import BLOCK, EPSILONS, Stakes

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

# The last point of each block of epsilons on which stakes are constant.
_BLOCK_ENDS = np.searchsorted(EPSILONS, np.arange(BLOCK, EPSILONS[-1] + BLOCK, BLOCK) - 1e-9) - 1


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
    low = -1
    for last in _BLOCK_ENDS:
        high = int(last)
        if not _rejected(tables, high, stakes, proxy_doubtful=proxy_doubtful):
            break
        low = high
    else:
        return float(EPSILONS[-1])
    while high - low > 1:
        middle = (low + high) // 2
        rejects = _rejected(tables, middle, stakes, proxy_doubtful=proxy_doubtful)
        low, high = (middle, high) if rejects else (low, middle)
    return float(EPSILONS[low]) if low >= 0 else 0.0


def matched_epsilon_ceiling(
    tables: Sequence[Tables], *, stakes: Stakes, proxy_doubtful: bool = False
) -> float:
    """Return what `matched_epsilon_lower` would have proved if every prediction had been right.

    The holdout stays as it is: with few of its records no attack can prove much.
    """
    every = [one.all_right() for one in tables]
    return matched_epsilon_lower(every, stakes=stakes, proxy_doubtful=proxy_doubtful)


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
    loses = not wins or (isinstance(one, Matched) and not one.may_win)
    return np.minimum(wealth, 0.0) if loses else wealth


def log_mean(logarithms: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of a weighted mean over the first axis, never above the largest."""
    best: NDArray[np.float64] = logarithms.max(axis=0)
    mean: NDArray[np.float64] = best + np.log1p(
        weights @ np.expm1(logarithms - best) / weights.sum()
    )
    return mean


def _rejected(
    tables: Sequence[Tables], point: int, stakes: Stakes, *, proxy_doubtful: bool
) -> bool:
    epsilon = float(EPSILONS[point])
    wealth = matched_log_wealth(tables, epsilon, stakes=stakes, proxy_doubtful=proxy_doubtful)
    return wealth >= stakes.log_needed(epsilon)


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

"""Segments of records in which a leak is named, with a bound for each of them.

Of many that are named, as of many models in one night, few are false: at most a share on average.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.false_discovery import false_discovery_qvalues
from privcore.lower_bounds.fdp import check_significance
from privcore.lower_bounds.windows import WINDOW_EPSILONS, Night


@dataclass(frozen=True, slots=True)
class SegmentBound:
    """Result of one segment.

    Attributes:
        qvalue: the share of false names at which this segment would be named.
        named: whether a leak in it is proved.
        epsilon_lower: lower bound on the privacy loss of its records; 0 where it is not named.
    """

    qvalue: float
    named: bool
    epsilon_lower: float


def name_segments(nights: Sequence[Night], *, significance: float = 0.05) -> list[SegmentBound]:
    """Name the segments in which a leak is proved, and bound each of them.

    Segments are named by e-BH against epsilon 0, however they depend on each other: of those that
    are named, on average at most `significance` leak nothing (`false_discovery_qvalues`). Where
    nothing leaks anywhere, one or more are named with at most that probability.

    The bound of a named segment is the last epsilon of the grid before the first whose e-value is
    below all / (significance * named). Of bounds chosen by whatever rule, each from one e-value and
    at the level significance * named / all, on average at most the share `significance` is wrong
    (Xu, Wang and Ramdas 2024, "Post-selection inference for e-value based confidence intervals",
    Theorem 2). A named segment's bound is 0 where its e-value rejects 0 and no more.

    *Does not say* that the other segments leak nothing.

    Args:
        nights: one of each segment, on the grid of windows, whose stakes are the segments' own:
            fixed before it is known which are named.
        significance: allowed share of wrong names, and of wrong bounds among the named.
    """
    check_significance(significance)
    if any(night.log_wealth.shape[1:] != WINDOW_EPSILONS.shape for night in nights):
        raise InvalidInputError("nights", len(nights), "they are on the grid of windows")
    if not nights:
        return []
    each = np.stack([_log_evalues(night.log_wealth, night.price) for night in nights])
    qvalues = false_discovery_qvalues(np.exp(np.minimum(each[:, 0], 700.0)))
    named = qvalues <= significance
    needed = math.log(len(nights) / (significance * max(int(named.sum()), 1)))
    runs = np.cumprod(each >= needed, axis=1).sum(axis=1)
    return [
        SegmentBound(float(q), bool(is_named), float(WINDOW_EPSILONS[run - 1]) if is_named else 0.0)
        for q, is_named, run in zip(qvalues, named, runs, strict=True)
    ]


def _log_evalues(log_wealth: NDArray[np.float64], price: float) -> NDArray[np.float64]:
    """Return the log e-values of the mean over strategies: (strategies, points) to (points,).

    Where delta takes a price s, E[min(W, 1/s)] is at most 2, so half of that is the e-value.
    """
    mean: NDArray[np.float64] = logsumexp(log_wealth, axis=0) - math.log(len(log_wealth))
    return mean if price == 0.0 else np.minimum(mean, -math.log(price)) - math.log(2.0)

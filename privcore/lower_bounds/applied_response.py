"""Randomized response tested by the label sums of a model's file: which epsilon was applied."""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, gammaln

from privcore.attacks.label_sums import LabelSums
from privcore.attacks.solved_labels import single_labels
from privcore.exceptions import InvalidInputError

Floats = NDArray[np.float64]
SIGNIFICANCE = 0.05
_NEARLY_ALL = 0.99
_GRID: Floats = np.arange(0.0, 501.0, dtype=np.float64) * 0.02
_COARSE = 25
_FINER: Floats = np.arange(-20.0, 21.0, dtype=np.float64) * 0.001
"""Epsilons, and steps around the likeliest, that the interval's ends are of, rounded outwards."""


@dataclass(frozen=True, slots=True)
class AppliedResponse:
    """Randomized responses through which training may have read the table's labels.

    Attributes:
        epsilon_low, epsilon_high: those that are not rejected at 0.05; the second is infinite where
            unchanged labels are not. Both are NaN where all are rejected: another rule changed
            labels.
        read: records whose single label the sums determine.
        same: those of them that have the table's label.
        records: all of them.
        classes: of the label.
    """

    epsilon_low: float
    epsilon_high: float
    read: int
    same: int
    records: int
    classes: int = 2

    @property
    def most_changed(self) -> float:
        """The share of labels that randomized response at `epsilon_low` changes."""
        others = self.classes - 1
        return others / (math.exp(self.epsilon_low) + others)


def applied_response(
    found: LabelSums, labels: NDArray[np.int64], *, conditions: int, together: int = 1
) -> AppliedResponse:
    """Return the randomized responses that label sums do not reject (Lemma R).

    H0: the labels z that training read are the table's y, each kept with the chance
    k = e^epsilon / (K - 1 + e^epsilon) and otherwise one of the K - 1 others, independently;
    features are fixed, so that none was made of z (as target encodings are).
    A node of a tree is a multiset of j of the `conditions` M on numbers. There are
    C(M + j - 1, j) of these, whatever z is; nodes below a condition on categories are left out. For
    a fixed one, where n1 of the table's labels are of the node's class and n0 are not, the sum of z
    is Bin(n1, k) + Bin(n0, (1 - k) / (K - 1)), and Chernoff bounds each of its tails. That bound,
    times 2 for both tails, times the number of multisets, times K where K > 2 for the classes,
    times 2^(j+1) for all depths, is a p-value over all nodes of all trees, however z chose borders,
    splits, early stopping and the number of trees that were read. The number of labels that are the
    table's is Bin(records, k), whatever the nodes are: where the sums determine nearly all labels,
    its exact interval counts, too. Each of the two has half of the significance.
    Where up to m records share one coin, Chernoff's bound has the power 1/m (Hoelder's inequality
    for the product of what each record adds).

    A declared epsilon below `epsilon_low` is refuted as coins of that epsilon, and not as
    epsilon-DP: a mechanism that adds noise elsewhere has no whole sums, and responses that are
    processed further (denoised by a model, say) may be nearer to the table's labels and as
    private. Not rejecting confirms a rate of changed labels, and not that chance changed them.

    Args:
        found: evaluated sums.
        labels: shape (records,), the table's.
        conditions: `privcore.attacks.label_sums.conditions` of the numeric features.
        together: the most records that may share one coin (m).

    Raises:
        InvalidInputError: the sums are not evaluated.
    """
    single = single_labels(*found.by_class)
    read, same = int((single >= 0).sum()), int((single == labels).sum())
    sums, rows, ones, boxes = _nodes(found, conditions)
    low, high = 0.0, math.inf
    if read >= _NEARLY_ALL * len(labels) and together == 1:
        low, high = _exact(same, read, len(labels), found.classes)

    def log_pvalue(epsilon: float) -> float:
        tails = _chernoff(sums, ones, rows - ones, *_chances(epsilon, found.classes))
        return min(float((tails / together + boxes).min()), 0.0)

    # It is concave in k, as the least of sums of logarithms of what is linear in k: one interval is
    # accepted, and the best point of a coarse grid has the best of all beside it.
    coarse = _first_best(_GRID[::_COARSE], log_pvalue) * _COARSE
    near = _GRID[max(coarse - _COARSE, 0) : coarse + _COARSE + 1]
    finer = np.maximum(near[_first_best(near, log_pvalue)] + _FINER, 0.0)
    points = np.unique(np.concatenate([_GRID, finer]))
    accepted = next((one for one in finer if log_pvalue(one) > math.log(SIGNIFICANCE)), None)
    if accepted is None:
        low = high = math.nan
    else:
        at = int(np.searchsorted(points, accepted))
        low = max(low, _end(points[at::-1], log_pvalue))
        high = min(high, _end(points[at:], log_pvalue))
    if not low <= high:
        low = high = math.nan
    return AppliedResponse(low, high, read, same, len(labels), found.classes)


def _first_best(points: Floats, log_pvalue: Callable[[float], float]) -> int:
    """Return the place of the first of ascending points after which none is better."""

    def falls(place: int) -> bool:
        after, here = (log_pvalue(float(points[at])) for at in (place + 1, place))
        return after <= here

    return bisect.bisect_left(range(len(points) - 1), 1, key=falls)


def _end(points: Floats, log_pvalue: Callable[[float], float]) -> float:
    """Return the first of points that is rejected, where none after it is accepted."""
    most = -math.log(SIGNIFICANCE)
    place = bisect.bisect_left(points, most, key=lambda one: -log_pvalue(one))
    if place < len(points):
        return float(points[place])
    return 0.0 if points[-1] == 0.0 else math.inf


def _chances(epsilon: float, classes: int) -> tuple[float, float]:
    """Return the chance that a label is kept, and that it becomes a given other one."""
    others = classes - 1
    kept = float(expit(epsilon - math.log(others)))
    return kept, (1.0 - kept) / others


def _nodes(
    found: LabelSums, conditions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return sums, rows and the table's labels of each node's class, and the log of its boxes."""
    if found.why:
        raise InvalidInputError("sums", found.why, "they have to be evaluated")
    each = np.column_stack([found.sums, found.rows, found.positives, found.depths])
    # One node stands in many trees; labels have chosen the records of one that is not numeric.
    nodes = np.unique(each[(found.rows > 0) & found.numeric], axis=0)
    boxes = _boxes(nodes[:, 3], conditions)
    if found.classes > 2:
        boxes += math.log(found.classes)
    return nodes[:, 0], nodes[:, 1], nodes[:, 2], boxes


def _boxes(depths: NDArray[np.int64], conditions: int) -> Floats:
    """Return the log of how many boxes there are, times 2^(j+1) for depths, for tails and tests."""
    multisets = gammaln(conditions + depths) - gammaln(depths + 1) - gammaln(conditions)
    logs: Floats = multisets + (depths + 3) * math.log(2.0)
    return logs


def _chernoff(
    sums: NDArray[np.int64],
    ones: NDArray[np.int64],
    noughts: NDArray[np.int64],
    kept: float,
    other: float,
) -> Floats:
    """Return log bounds on the tail of Bin(ones, kept) + Bin(noughts, other) at each sum.

    The best e^t is the positive root of a quadratic; any other is valid, so it may be rounded.
    """
    a, b = kept, other
    not_a, not_b = 1.0 - a, 1.0 - b
    square = a * b * (ones + noughts - sums)
    linear = ones * a * not_b + noughts * b * not_a - sums * (a * not_b + b * not_a)
    constant = -sums * not_b * not_a
    root = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of the two forms of the root, the one that subtracts nothing alike.
        best = np.where(linear > 0, -2.0 * constant / (linear + root), (root - linear) / 2 / square)
    best = np.clip(np.nan_to_num(best, nan=1e12, posinf=1e12), 1e-12, 1e12)
    bound = (
        ones * np.log(not_a + a * best) + noughts * np.log(not_b + b * best) - sums * np.log(best)
    )
    logs: Floats = np.minimum(bound, 0.0)
    return logs


def _exact(same: int, read: int, records: int, classes: int) -> tuple[float, float]:
    """Return Clopper's and Pearson's interval for the chance to keep a label, as epsilons.

    Labels that are not read count as changed for its lower end, and as kept for its upper one.
    """
    tail, most = SIGNIFICANCE / 4.0, records - read + same
    least = 1.0 / classes
    low = float(betaincinv(same, records - same + 1, tail)) if same else 0.0
    high = float(betaincinv(most + 1, records - most, 1.0 - tail)) if most < records else 1.0
    if high < least:  # more than any randomized response changes
        return math.nan, math.nan
    ends = [
        math.inf if one >= 1.0 else math.log(one / (1.0 - one)) + math.log(classes - 1)
        for one in (max(low, least), high)
    ]
    return max(ends[0], 0.0), ends[1]

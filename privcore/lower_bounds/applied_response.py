"""Randomized response tested by the label sums of a model's file: which epsilon was applied."""

import math
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
    """

    epsilon_low: float
    epsilon_high: float
    read: int
    same: int
    records: int


def applied_response(
    found: LabelSums, labels: NDArray[np.int64], *, conditions: int, together: int = 1
) -> AppliedResponse:
    """Return the randomized responses that label sums do not reject (Lemma R).

    H0: the labels z that training read are the table's y, each kept with the chance
    k = e^epsilon / (1 + e^epsilon) and otherwise exchanged, independently; features are fixed, so
    that none was made of z (as target encodings are).
    A node of a tree is a multiset of j of the `conditions` M on features. There are
    C(M + j - 1, j) of these, whatever z is. For a fixed one, with n1 positive and n0 negative
    labels of the table, the sum of z is Bin(n1, k) + Bin(n0, 1 - k), and Chernoff bounds each of
    its tails. That bound, times 2 for both tails, times the number of multisets, times 2^(j+1) for
    all depths, is a p-value over all nodes of all trees, however z chose borders, splits, early
    stopping and the number of trees that were read. Where the sums determine every label, the
    number of labels that are the table's is Bin(records, k), and its exact interval is used
    instead. Which of the two is used depends on z, so each has half of the significance.
    Where up to m records share one coin, Chernoff's bound has the power 1/m (Hoelder's inequality
    for the product of what each record adds).

    A declared epsilon below `epsilon_low` is refuted as coins of that epsilon, and not as
    epsilon-DP: a mechanism that adds noise elsewhere has no whole sums, and responses that are
    processed further (denoised by a model, say) may be nearer to the table's labels and as
    private. Not rejecting confirms a rate of changed labels, and not that chance changed them.

    Args:
        found: evaluated sums, of features of which none is categorical (labels order categories).
        labels: shape (records,), the table's.
        conditions: `privcore.attacks.label_sums.conditions` of the features.
        together: the most records that may share one coin (m).

    Raises:
        InvalidInputError: the sums are not evaluated.
    """
    single = single_labels(found)
    read, same = int((single >= 0).sum()), int((single == labels).sum())
    sums, rows, ones, boxes = _nodes(found, conditions)
    low, high = 0.0, math.inf
    if read >= _NEARLY_ALL * len(labels) and together == 1:
        low, high = _exact(same, read, len(labels))

    def pvalues(epsilons: Floats) -> Floats:
        each = (_chernoff(sums, ones, rows - ones, expit(float(one))) for one in epsilons)
        return np.exp([min(float((one / together + boxes).min()), 0.0) for one in each])

    likely = _GRID[int(pvalues(_GRID).argmax())]
    points = np.unique(np.concatenate([_GRID, np.maximum(likely + _FINER, 0.0)]))
    accepted = np.flatnonzero(pvalues(points) > SIGNIFICANCE)
    if accepted.size:
        after = accepted[-1] + 1
        low = max(low, float(points[max(accepted[0] - 1, 0)]))
        high = min(high, float(points[after]) if after < len(points) else math.inf)
    if not accepted.size or not low <= high:
        low = high = math.nan
    return AppliedResponse(low, high, read, same, len(labels))


def are_no_responses(found: LabelSums, *, epsilon: float, conditions: int) -> bool:
    """Return whether the table's own labels are not what randomized response at `epsilon` made.

    H0: they are, of whatever labels. Then each is positive with a chance between 1 - k and k, so
    that the table's sum over a fixed box lies between Bin(rows, 1 - k) and Bin(rows, k)
    stochastically. Boxes are counted as in `applied_response`. False says nothing: labels that
    features hardly predict look like responses.

    Raises:
        InvalidInputError: the sums are not evaluated.
    """
    _, rows, ones, boxes = _nodes(found, conditions)
    kept, most = expit(epsilon), np.maximum(ones, rows - ones)
    tails = _chernoff(most, rows, np.zeros_like(rows), kept)
    return bool((np.where(most > rows * kept, tails, 0.0) + boxes < math.log(SIGNIFICANCE)).any())


def _nodes(
    found: LabelSums, conditions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return sums, rows and the table's positives of each node, and the log of its boxes."""
    if found.why:
        raise InvalidInputError("sums", found.why, "they have to be evaluated")
    each = np.column_stack([found.sums, found.rows, found.positives, found.depths])
    nodes = np.unique(each[found.rows > 0], axis=0)  # one node stands in many trees
    return nodes[:, 0], nodes[:, 1], nodes[:, 2], _boxes(nodes[:, 3], conditions)


def _boxes(depths: NDArray[np.int64], conditions: int) -> Floats:
    """Return the log of how many boxes there are, times 2^(j+1) for depths, for tails and tests."""
    multisets = gammaln(conditions + depths) - gammaln(depths + 1) - gammaln(conditions)
    logs: Floats = multisets + (depths + 3) * math.log(2.0)
    return logs


def _chernoff(
    sums: NDArray[np.int64], ones: NDArray[np.int64], noughts: NDArray[np.int64], kept: float
) -> Floats:
    """Return log bounds on the tail of Bin(ones, kept) + Bin(noughts, 1 - kept) at each sum.

    The best e^t is the positive root of a quadratic; any other is valid, so it may be rounded.
    """
    a, b = kept, 1.0 - kept
    square = a * b * (ones + noughts - sums)
    linear = ones * a * a + noughts * b * b - sums * (a * a + b * b)
    constant = -sums * a * b
    root = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Of the two forms of the root, the one that subtracts nothing alike.
        best = np.where(linear > 0, -2.0 * constant / (linear + root), (root - linear) / 2 / square)
    best = np.clip(np.nan_to_num(best, nan=1e12, posinf=1e12), 1e-12, 1e12)
    bound = ones * np.log(b + a * best) + noughts * np.log(a + b * best) - sums * np.log(best)
    logs: Floats = np.minimum(bound, 0.0)
    return logs


def _exact(same: int, read: int, records: int) -> tuple[float, float]:
    """Return Clopper's and Pearson's interval for the chance to keep a label, as epsilons."""
    tail, most = SIGNIFICANCE / 4.0, records - read + same
    low = float(betaincinv(same, records - same + 1, tail)) if same else 0.0
    high = float(betaincinv(most + 1, records - most, 1.0 - tail)) if most < records else 1.0
    if high < 0.5:  # more than any randomized response changes
        return math.nan, math.nan
    ends = [
        math.inf if one >= 1.0 else math.log(one / (1.0 - one)) for one in (max(low, 0.5), high)
    ]
    return ends[0], ends[1]

"""Label sums by leaf: what a boosted tree's file gives away to whoever has the training features.

A leaf of a boosted tree for binary labels is one Newton step. With p_i the model's probability of a
record before the tree, its value is

    v = rate * (sum z_i - sum p_i) / (sum p_i (1 - p_i) + penalty)

(Friedman 2001, https://doi.org/10.1214/aos/1013203451; Chen and Guestrin 2016, equation 5,
https://arxiv.org/abs/1603.02754). The trees before it give p_i, so that the sum of the labels z_i
that training read follows exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.exceptions import InvalidInputError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

WHOLE = 0.05
"""Distance from a whole number up to which a sum is taken for one."""
ENOUGH_LEAVES = 16
"""A leaf of another table passes with a chance of about 0.1; fewer leaves say nothing."""
MOST_TREES = 100
"""First trees that are looked at."""
_ROUNDS = 4
"""Corrections of sums that follow from several steps."""
_CELLS = 10_000_000
"""Records times trees that are looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree of a file.

    Attributes:
        parents: shape (nodes,), the node above each; -1 at the root.
        values: shape (nodes,), what each leaf adds to the log odds; what inner nodes hold is not
            looked at.
        rate: the learning rate.
    """

    parents: Counts
    values: Floats
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Boosted trees for a binary label.

    Attributes:
        trees: in their order.
        penalty: on squared leaf values (lambda).
        start: log odds before the first tree; None where the first tree's leaves hold them, with
            the share of positive labels as start (LightGBM).
        steps: of Newton, whose sum each leaf's value is (CatBoost).
    """

    trees: tuple[Tree, ...]
    penalty: float
    start: float | None = None
    steps: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class LabelSums:
    """Label sums of the nodes of a file's first trees.

    Attributes:
        trees: how many trees were read; none after the first whose sums are not whole.
        sums: shape (nodes,), of the labels that training read.
        rows: shape (nodes,), records.
        positives: shape (nodes,), the same sum of the table's labels.
        depths: shape (nodes,), conditions that a record meets on its way there.
        leaves: shape (records, trees), the leaf of each record as a place in `sums`.
        why: completes "the file is not evaluated: ..."; "" where the sums are the labels' own.
    """

    trees: int
    sums: Counts
    rows: Counts
    positives: Counts
    depths: Counts
    leaves: Counts
    why: str = ""

    @property
    def are_the_tables(self) -> bool:
        """Whether every leaf holds exactly the sum of the table's labels."""
        return not self.why and bool((self.sums == self.positives).all())


def trees_read(records: int) -> int:
    """Return how many of the first trees `label_sums` looks at, at most."""
    return min(MOST_TREES, max(1, _CELLS // max(records, 1)))


def label_sums(ensemble: Ensemble, leaves: NDArray[np.integer], labels: Counts) -> LabelSums:
    """Return the label sums of each node, or why there are none.

    Sums that are all whole and between 0 and the records of the leaf are taken for those of the
    labels that training read. They are not whole where training read other records, weights or
    drawn rows (bagging), or a leaf is no Newton step of lambda alone (l1, dart, class weights,
    noise in leaf values). A file that was changed on purpose may hold any sums.

    Args:
        ensemble: of the file.
        leaves: shape (records, trees), the node of the leaf that each training record falls into;
            trees beyond these are not looked at.
        labels: shape (records,), the table's, 0 or 1.

    Raises:
        InvalidInputError: shapes that do not fit, a leaf that is not there, or another label.

    >>> tree = Tree(np.array([-1, 0, 0]), np.array([0.0, -2.0, 2.0 / 3.0]), rate=1.0)
    >>> found = label_sums(
    ...     Ensemble((tree,), 0.0, start=0.0),
    ...     np.array([[1], [2], [2], [2]]),
    ...     np.array([0, 1, 0, 1]),
    ... )
    >>> found.sums.tolist(), found.rows.tolist(), found.why
    ([2, 0, 2], [4, 1, 3], 'too few leaves hold whole sums')
    """
    _check(ensemble, leaves, labels)
    odds = np.full(len(labels), 0.0 if ensemble.start is None else ensemble.start)
    parts: list[tuple[Counts, Counts, Counts, Counts]] = []
    places = list[Counts]()
    seen = offset = 0
    cost = 1 if ensemble.steps == 1 else ensemble.steps * _ROUNDS
    most = min(leaves.shape[1], trees_read(len(labels) * cost))
    for number, tree in enumerate(ensemble.trees[:most]):
        node = leaves[:, number].astype(np.int64)
        size = len(tree.parents)
        rows = np.bincount(node, minlength=size)
        first = number == 0 and ensemble.start is None
        found, before = _first(ensemble, tree, rows) if first else _step(ensemble, tree, node, odds)
        sums = np.rint(found)
        if not (np.abs(found - sums) <= WHOLE).all() or (sums < 0).any() or (sums > rows).any():
            break
        odds = before + tree.values[node]
        depths = _depths(tree.parents)
        positives = np.bincount(node, weights=labels, minlength=size)
        whole = [_upwards(each.astype(np.int64), tree.parents, depths)
                 for each in (sums, rows, positives)]  # fmt: skip
        parts.append((whole[0], whole[1], whole[2], depths))
        places.append(node + offset)
        seen, offset = seen + int((rows > 0).sum()), offset + size
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return LabelSums(
            0, none, none, none, none, np.empty((len(labels), 0), dtype=np.int64),
            "its first tree's sums are not whole",
        )  # fmt: skip
    joined = [np.concatenate(each) for each in zip(*parts, strict=True)]
    why = "" if seen >= ENOUGH_LEAVES else "too few leaves hold whole sums"
    sums, rows, positives, depths = joined
    return LabelSums(len(parts), sums, rows, positives, depths, np.column_stack(places), why)


def _check(ensemble: Ensemble, leaves: NDArray[np.integer], labels: Counts) -> None:
    if leaves.shape[0] != len(labels) or not 0 < leaves.shape[1] <= len(ensemble.trees):
        rule = f"({len(labels)}, 1 to {len(ensemble.trees)})"
        raise InvalidInputError("shape of leaves", leaves.shape, rule)
    if not len(labels) or not np.isin(labels, (0, 1)).all():
        raise InvalidInputError("labels", np.unique(labels).tolist(), "records of 0 or 1")
    sizes = np.array([len(tree.parents) for tree in ensemble.trees[: leaves.shape[1]]])
    if leaves.min() < 0 or (leaves.max(axis=0) >= sizes).any():
        raise InvalidInputError("leaves", int(leaves.max()), "each is a node of its tree")


def _first(ensemble: Ensemble, tree: Tree, rows: Counts) -> tuple[Floats, float]:
    """Return sums of a tree whose leaves hold the start, and the odds before it: none.

    All gradients of the first tree add up to zero, since the start is the labels' own share.
    """
    held = rows > 0
    start = float(np.average(tree.values[held], weights=rows[held]))
    for _ in range(50):
        weights = rows * expit(start) * expit(-start) + ensemble.penalty
        start = float(np.average(tree.values[held], weights=weights[held]))
    step = (tree.values - start) / tree.rate
    sums = rows * expit(start) + step * (rows * expit(start) * expit(-start) + ensemble.penalty)
    return np.where(held, sums, 0.0), 0.0


def _step(ensemble: Ensemble, tree: Tree, node: Counts, odds: Floats) -> tuple[Floats, Floats]:
    """Return sums of a tree, and the odds before it."""
    size = len(tree.parents)
    held, moved = np.bincount(node, minlength=size) > 0, tree.values / tree.rate

    def parts(steps: Floats) -> tuple[Floats, Floats]:
        chance = expit(odds + steps[node])
        expected = np.bincount(node, weights=chance, minlength=size).astype(np.float64)
        curvature = np.bincount(node, weights=chance * (1.0 - chance), minlength=size)
        return expected, curvature.astype(np.float64) + ensemble.penalty

    before, slope = parts(np.zeros(size))
    if ensemble.steps == 1:
        return np.where(held, before + moved * slope, 0.0), odds
    # Steps that converge end near the root of the gradient; sums follow from there by Newton.
    sums = parts(moved)[0]
    for _ in range(_ROUNDS):
        at, slope = np.zeros(size), np.zeros(size)
        for _ in range(ensemble.steps):
            expected, curvature = parts(at)
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = slope * (ensemble.penalty / curvature) + 1.0 / curvature
                at = at + (sums - expected) / curvature
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = np.nan_to_num(sums + (moved - at) / slope, nan=-1.0)
    return np.where(held, sums, 0.0), odds


def _depths(parents: Counts) -> Counts:
    """Return how far each node is from the root.

    Raises:
        InvalidInputError: parents that are no nodes, or run in a circle.
    """
    depths, at = np.zeros(len(parents), dtype=np.int64), parents
    while (at >= 0).any():
        if at.max() >= len(parents) or depths.max() > len(parents):
            raise InvalidInputError("parents", parents.tolist(), "they lead to the root")
        depths += at >= 0
        at = np.where(at >= 0, parents[at], -1)
    return depths


def _upwards(leaves: Counts, parents: Counts, depths: Counts) -> Counts:
    """Return each node's sum of the leaves below it."""
    sums = leaves.copy()
    for depth in range(int(depths.max(initial=0)), 0, -1):
        at = np.flatnonzero(depths == depth)
        np.add.at(sums, parents[at], sums[at])
    return sums


def conditions(features: Sequence[Floats]) -> int:
    """Return how many conditions a node may ask: every way in which one border divides the records.

    Each border of a feature counts by what it divides, with missing values on either side, from
    either side. So no choice of borders that labels have made is left out (XGBoost's `approx`).
    """
    return sum(4 * (len(np.unique(column[~np.isnan(column)])) + 1) for column in features)

"""Label sums by leaf: what a boosted tree's file gives away to whoever has the training features.

A leaf of a boosted tree for binary labels is one Newton step. With p_i the model's probability of a
record before the tree, its value is

    v = rate * (sum z_i - sum p_i) / (sum p_i (1 - p_i) + penalty)

(Friedman 2001, https://doi.org/10.1214/aos/1013203451; Chen and Guestrin 2016, equation 5,
https://arxiv.org/abs/1603.02754). The trees before it give p_i, so that the sum of the labels z_i
that training read follows exactly. Of more classes, each round has a tree for each class, with z_i
and p_i those of the class. LightGBM multiplies p_i (1 - p_i) by K / (K - 1), XGBoost by 2. CatBoost
grows one tree a round, whose K values are one step by the whole Hessian, diag(p_i) - p_i p_i'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from privcore.exceptions import InvalidInputError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

WHOLE = 0.05
"""Distance from a whole number up to which a sum is taken for one."""
ENOUGH_LEAVES = 16
"""A leaf of another table passes with a chance of about 0.1; fewer leaves say nothing."""
MOST_TREES = 100
"""First rounds that are looked at."""
_ROUNDS = 4
"""Corrections of sums that follow from several steps."""
_CELLS = 10_000_000
"""Records times trees that are looked at."""
_FURTHEST, _SMALLEST = 30.0, 1e-9
"""Log odds of a start that are looked for at most, and the least -log of a share."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree of a file.

    Attributes:
        parents: shape (nodes,), the node above each; -1 at the root.
        values: shape (nodes,), what each leaf adds to the log odds; what inner nodes hold is not
            looked at.
        rate: the learning rate.
        asks: shape (nodes,), whether a node asks for a category; None where none does.
        added: shape (nodes,), to the ensemble's penalty of a leaf (LightGBM's cat_l2).
    """

    parents: Counts
    values: Floats
    rate: float
    asks: Flags | None = None
    added: Floats | float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Boosted trees for a label.

    Attributes:
        trees: in their order; of more than two classes, one of each class in each round.
        penalty: on squared leaf values (lambda).
        start: log odds before the first tree, of more classes one of each; None where the first
            trees' leaves hold them, with the shares of labels as start (LightGBM).
        steps: of Newton, whose sum each leaf's value is (CatBoost, two classes).
        classes: of the label.
        factor: of p (1 - p); None where all classes' values are one step (CatBoost, more classes).
    """

    trees: tuple[Tree, ...]
    penalty: float
    start: float | tuple[float, ...] | None = None
    steps: int = 1
    classes: int = 2
    factor: float | None = 1.0

    @property
    def per_round(self) -> int:
        """How many trees a round has."""
        return _per_round(self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class LabelSums:
    """Label sums of the nodes of a file's first trees.

    Attributes:
        trees: how many trees were read; none after the first whose sums are not whole.
        sums: shape (nodes,), of labels of the node's class that training read.
        rows: shape (nodes,), records.
        positives: shape (nodes,), the same sum of the table's labels.
        depths: shape (nodes,), conditions that a record meets on its way there.
        leaves: shape (records, trees), the leaf of each record as a place in `sums`.
        counted: shape (nodes,), the node's class: 1 of two.
        numeric: shape (nodes,), whether all conditions on the way are on numbers. Labels choose
            which categories a condition takes.
        classes: of the label.
        why: completes "the file is not evaluated: ..."; "" where the sums are the labels' own.
    """

    trees: int
    sums: Counts
    rows: Counts
    positives: Counts
    depths: Counts
    leaves: Counts
    counted: Counts
    numeric: Flags
    classes: int = 2
    why: str = ""

    @property
    def by_class(self) -> tuple["LabelSums", ...]:
        """The sums of each class, as of two: it and all others; of two classes the second's."""
        if self.classes == 2:
            return (self,)
        return tuple(self._of(one) for one in range(self.classes))

    def _of(self, counted: int) -> "LabelSums":
        chosen = self.counted == counted
        leaves = self.leaves[:, chosen[self.leaves[0]]]
        sums, rows, positives, depths, numeric = (
            each[chosen]
            for each in (self.sums, self.rows, self.positives, self.depths, self.numeric)
        )
        return LabelSums(
            leaves.shape[1], sums, rows, positives, depths, (np.cumsum(chosen) - 1)[leaves],
            np.ones_like(sums), numeric, why=self.why,
        )  # fmt: skip

    @property
    def are_the_tables(self) -> bool:
        """Whether every leaf holds exactly the sum of the table's labels."""
        return not self.why and bool((self.sums == self.positives).all())


def _per_round(classes: int) -> int:
    return classes if classes > 2 else 1


def trees_read(records: int, classes: int = 2) -> int:
    """Return how many of the first trees `label_sums` looks at, at most, in whole rounds."""
    trees = _per_round(classes)
    return trees * min(MOST_TREES, max(1, _CELLS // max(records * trees, 1)))


def label_sums(ensemble: Ensemble, leaves: NDArray[np.integer], labels: Counts) -> LabelSums:
    """Return the label sums of each node, or why there are none.

    Sums that are all whole and between 0 and the records of the leaf are taken for those of the
    labels that training read. They are not whole where training read other records, weights or
    drawn rows (bagging), or a leaf is no Newton step of lambda alone (l1, dart, class weights,
    noise in leaf values), or training saw other leaves (CatBoost's ordered statistics of
    categories). A file that was changed on purpose may hold any sums.

    Args:
        ensemble: of the file.
        leaves: shape (records, trees), the node of the leaf that each training record falls into;
            trees beyond these are not looked at.
        labels: shape (records,), the table's: classes counted from 0.

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
    many = ensemble.per_round
    start = 0.0 if ensemble.start is None else ensemble.start
    odds = np.tile(np.resize(np.asarray(start, dtype=np.float64), many), (len(labels), 1))
    read, below, places = list[tuple[Tree, int]](), list[Counts](), list[Counts]()
    offset = 0
    cost = 1 if ensemble.steps == 1 else ensemble.steps * _ROUNDS
    most = min(leaves.shape[1], trees_read(len(labels) * cost, ensemble.classes))
    for begin in range(0, most - many + 1, many):
        trees = ensemble.trees[begin : begin + many]
        nodes = leaves[:, begin : begin + many].astype(np.int64)
        counts = [np.bincount(node, minlength=len(tree.parents))
                  for node, tree in zip(nodes.T, trees, strict=True)]  # fmt: skip
        found = _round(ensemble, trees, nodes, odds, first=begin == 0)
        # A later tree of LightGBM without a split takes no step.
        steps = [begin == 0 or len(tree.parents) > 1 or bool(tree.values[0]) for tree in trees]
        whole = [np.rint(each) for each in found]
        if not all(
            (np.abs(each - sums) <= WHOLE).all() and (sums >= 0).all() and (sums <= rows).all()
            for each, sums, rows, step in zip(found, whole, counts, steps, strict=True) if step
        ):  # fmt: skip
            break
        for place, (tree, sums, rows) in enumerate(zip(trees, whole, counts, strict=True)):
            if not steps[place]:
                continue
            node, one = nodes[:, place], place if many > 1 else 1
            odds[:, place] += tree.values[node]
            positives = np.bincount(node, weights=labels == one, minlength=len(rows))
            below.append(np.column_stack([sums, rows, positives]).astype(np.int64))
            read.append((tree, one))
            places.append(node + offset)
            offset += len(rows)
    if not read:
        none = np.empty(0, dtype=np.int64)
        return LabelSums(
            0, none, none, none, none, np.empty((len(labels), 0), dtype=np.int64), none,
            none.astype(bool), ensemble.classes, "its first tree's sums are not whole",
        )  # fmt: skip
    held = np.concatenate(below)
    why = "" if (held[:, 1] > 0).sum() >= ENOUGH_LEAVES else "too few leaves hold whole sums"
    depths, numeric = _summed_upwards(held, [tree for tree, _ in read])
    counted = np.repeat([one for _, one in read], [len(tree.parents) for tree, _ in read])
    trees_of = len(read) if ensemble.factor is not None else len(read) // many
    sums, rows, positives = held.T.copy()
    return LabelSums(
        trees_of, sums, rows, positives, depths, np.column_stack(places), counted, numeric,
        ensemble.classes, why,
    )  # fmt: skip


def _check(ensemble: Ensemble, leaves: NDArray[np.integer], labels: Counts) -> None:
    least, most = ensemble.per_round, len(ensemble.trees)
    if leaves.shape[0] != len(labels) or not least <= leaves.shape[1] <= most:
        rule = f"({len(labels)}, {least} to {most})"
        raise InvalidInputError("shape of leaves", leaves.shape, rule)
    if not len(labels) or not np.isin(labels, range(ensemble.classes)).all():
        rule = f"records of 0 to {ensemble.classes - 1}"
        raise InvalidInputError("labels", np.unique(labels).tolist(), rule)
    sizes = np.array([len(tree.parents) for tree in ensemble.trees[: leaves.shape[1]]])
    if leaves.min() < 0 or (leaves.max(axis=0) >= sizes).any():
        raise InvalidInputError("leaves", int(leaves.max()), "each is a node of its tree")


def _round(
    ensemble: Ensemble, trees: tuple[Tree, ...], nodes: Counts, odds: Floats, *, first: bool
) -> list[Floats]:
    """Return sums of a round's trees, shape (nodes,) each, given the odds before it."""
    if ensemble.factor is None:
        return _whole_step(ensemble, trees, nodes[:, 0], odds)
    if first and ensemble.start is None:
        counts = (np.bincount(node, minlength=len(tree.parents))
                  for node, tree in zip(nodes.T, trees, strict=True))  # fmt: skip
        return [_first(ensemble, tree, rows) for tree, rows in zip(trees, counts, strict=True)]
    if ensemble.per_round == 1:
        return [_step(ensemble, trees[0], nodes[:, 0], odds[:, 0])]
    chances = softmax(odds, axis=1)
    return [
        _one_step(ensemble, tree, node, chance)
        for tree, node, chance in zip(trees, nodes.T, chances.T, strict=True)
    ]


def _first(ensemble: Ensemble, tree: Tree, rows: Counts) -> Floats:
    """Return sums of a tree whose leaves hold the start.

    All gradients of the first tree add up to zero, since the start is the labels' own share.
    """
    held = rows > 0
    penalty, factor = ensemble.penalty + tree.added, ensemble.factor or 1.0

    def parts(start: float) -> tuple[float, Floats]:
        # A start is log odds of two classes, and of more the log of a share.
        share = expit(start) if ensemble.classes == 2 else np.exp(start)
        other = expit(-start) if ensemble.classes == 2 else -np.expm1(start)
        return float(share), factor * rows * share * other + penalty

    most = _FURTHEST if ensemble.classes == 2 else -_SMALLEST
    start = float(np.average(tree.values[held], weights=rows[held]))
    for _ in range(50):
        start = float(np.clip(start, -_FURTHEST, most))
        start = float(np.average(tree.values[held], weights=parts(start)[1][held]))
    share, slope = parts(start)
    return np.where(held, rows * share + (tree.values - start) / tree.rate * slope, 0.0)


def _one_step(ensemble: Ensemble, tree: Tree, node: Counts, chance: Floats) -> Floats:
    """Return sums of a tree of one step, given the chance of its class before it."""
    size = len(tree.parents)
    expected = np.bincount(node, weights=chance, minlength=size)
    curvature = np.bincount(node, weights=chance * (1.0 - chance), minlength=size)
    slope = (ensemble.factor or 1.0) * curvature + ensemble.penalty + tree.added
    held = np.bincount(node, minlength=size) > 0
    return np.where(held, expected + tree.values / tree.rate * slope, 0.0)


def _whole_step(
    ensemble: Ensemble, trees: tuple[Tree, ...], node: Counts, odds: Floats
) -> list[Floats]:
    """Return sums of all classes' values in one tree, a step by the whole Hessian."""
    size, chances = len(trees[0].parents), softmax(odds, axis=1)
    moved = np.column_stack([tree.values / tree.rate for tree in trees])
    # (diag(p) - p p') m of each record, which is m of its leaf
    towards = moved[node] - (chances * moved[node]).sum(axis=1, keepdims=True)
    held = np.bincount(node, minlength=size) > 0
    return [
        np.where(held, np.bincount(node, weights=each, minlength=size) + ensemble.penalty * one, 0)
        for each, one in zip((chances * (1.0 + towards)).T, moved.T, strict=True)
    ]


def _step(ensemble: Ensemble, tree: Tree, node: Counts, odds: Floats) -> Floats:
    """Return sums of a tree for two classes, given the odds before it."""
    if ensemble.steps == 1:
        return _one_step(ensemble, tree, node, expit(odds))
    size = len(tree.parents)
    held, moved = np.bincount(node, minlength=size) > 0, tree.values / tree.rate

    def parts(steps: Floats) -> tuple[Floats, Floats]:
        chance = expit(odds + steps[node])
        expected = np.bincount(node, weights=chance, minlength=size).astype(np.float64)
        curvature = np.bincount(node, weights=chance * (1.0 - chance), minlength=size)
        return expected, curvature.astype(np.float64) + ensemble.penalty

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
    return np.where(held, sums, 0.0)


def _summed_upwards(held: Counts, trees: Sequence[Tree]) -> tuple[Counts, Flags]:
    """Add what leaves hold to all nodes above them, of all trees' nodes, shape (nodes, sums).

    Returns:
        How far each node is from its root, and whether no node above it asks for a category.

    Raises:
        InvalidInputError: parents that are no nodes of their tree, or run in a circle.
    """
    sizes = [len(tree.parents) for tree in trees]
    own = np.concatenate([tree.parents for tree in trees])
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    parents = np.where(own >= 0, own + first, -1)
    outside, depths, at = (own >= np.repeat(sizes, sizes)).any(), np.zeros_like(own), parents
    while not outside and (at >= 0).any():
        depths += at >= 0
        outside = depths.max() > max(sizes)
        at = np.where(at >= 0, parents[at], -1)
    if outside:
        raise InvalidInputError("parents", own.tolist(), "they lead to the root")
    levels = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()) + 1)]
    for nodes in reversed(levels[1:]):
        np.add.at(held, parents[nodes], held[nodes])
    asks = np.concatenate(
        [np.zeros(len(tree.parents), bool) if tree.asks is None else tree.asks for tree in trees]
    )
    numeric = np.ones(len(own), dtype=bool)
    for nodes in levels[1:]:
        numeric[nodes] = (numeric & ~asks)[parents[nodes]]
    return depths, numeric


def conditions(features: Sequence[Floats]) -> int:
    """Return how many conditions a node may ask: every way in which one border divides the records.

    Each border of a feature counts by what it divides, with missing values on either side, from
    either side. So no choice of borders that labels have made is left out (XGBoost's `approx`).
    """
    return sum(4 * (len(np.unique(column[~np.isnan(column)])) + 1) for column in features)

"""Single labels that the label sums of a model's leaves determine."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from privcore.attacks.label_sums import LabelSums

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_PER_LEAF = 2.7
"""Records for each leaf up to which all labels are looked for at once: beyond, none were found."""
_CELLS = 4_000_000
"""Records times trees, likewise: 40,000 records take 4 seconds."""
_EVALUATIONS = 600
"""Of the loss: 8,000 records and 3,100 leaves take some 300."""
_MARGIN = 1e-6
"""A score is a sum of at most some hundred weights, each exact to 1e-13 of some thousands."""


def single_labels(*found: LabelSums) -> Counts:
    """Return the classes that the sums determine, shape (records,); -1 where they leave it open.

    Where there are leaves enough, all labels are looked for at once. Of what is left open, a leaf
    that holds nothing or all of a class gives its records' labels, and what is left of other leaves
    without them is looked at again. Of open records a better solver may still know nearly all.

    Args:
        found: evaluated sums of the labels of each class; of the second class alone where there are
            two.
    """
    records = len(found[0].leaves)
    leaves = sum(len(np.unique(one.leaves)) for one in found)
    cells = sum(one.leaves.size for one in found)
    solved = np.full(records, -1)
    if records <= _PER_LEAF * leaves and cells <= _CELLS:
        solved = _solved(found)
    return solved if solved.min() >= 0 else np.where(solved < 0, _by_single_leaves(found), solved)


def _solved(found: tuple[LabelSums, ...]) -> Counts:
    """Return the labels that all labels of these sums share, as far as they are found; -1 if open.

    Logistic regression on leaves needs of the labels their sums alone. Let each leaf have a weight
    for its class, and w_ik be the sum of the weights of record i's leaves of class k (0 for a first
    class without sums). Let z_i = argmax_k w_ik, and e be the sum over leaves of weight times what
    z's sum has more than it should. Then every y with the sums has sum_ik w_ik (z_ik - y_ik) = e.
    No record's part of it is negative, so that no record whose maximum is ahead by more than e has
    another label than z_i. Weights may be any; the regression's are those that leave few open.
    """
    records = len(found[0].leaves)
    tables, sums = [], []
    for one in found:
        places, leaves = np.unique(one.leaves, return_inverse=True)
        trees = one.leaves.shape[1]
        tables.append(csr_array(
            (np.ones(leaves.size), leaves.ravel(), np.arange(records + 1) * trees),
            shape=(records, len(places)),
        ))  # fmt: skip
        sums.append(one.sums[places])
    ends = np.cumsum([len(one) for one in sums])[:-1]
    right = np.concatenate(sums).astype(np.float64)
    first = np.zeros((records, int(len(found) == 1)))
    solution = np.full(records, -1)

    def scores(weights: Floats) -> Floats:
        parts = zip(tables, np.split(weights, ends), strict=True)
        return np.column_stack([first, *(table @ part for table, part in parts)])

    def summed(chosen: Floats) -> Floats:
        columns = chosen[:, -len(tables) :].T
        return np.concatenate(
            [table.T @ column for table, column in zip(tables, columns, strict=True)]
        )

    def loss(weights: Floats) -> tuple[float, Floats]:
        nonlocal solution
        odds = scores(weights)
        best = odds.argmax(axis=1)[:, None]
        chosen = np.arange(odds.shape[1]) == best
        behind = np.take_along_axis(odds, best, axis=1) - odds
        missed = summed(chosen.astype(np.float64)) - right
        ahead = np.where(chosen, np.inf, behind).min(axis=1) > weights @ missed + _MARGIN
        if ahead.sum() > (solution >= 0).sum():
            solution = np.where(ahead, best[:, 0], -1)
        parts = np.exp(-behind)
        totals = parts.sum(axis=1, keepdims=True)
        # As the sum of logs less weights times sums, it would end as the difference of large sums.
        return float(np.log(totals).sum() + weights @ missed), summed(parts / totals) - right

    def stop(xk: Floats) -> None:  # noqa: ARG001  # scipy asks for this name
        if solution.min() >= 0:
            raise StopIteration

    minimize(
        loss, np.zeros(len(right)), jac=True, method="L-BFGS-B", callback=stop,
        options={"maxcor": 20, "maxfun": _EVALUATIONS, "maxiter": _EVALUATIONS, "ftol": 0.0,
                 "gtol": 0.0},
    )  # fmt: skip
    return solution


def _by_single_leaves(found: tuple[LabelSums, ...]) -> Counts:
    """Return the labels that leaves of nothing or all of a class tell; -1 if open."""
    known = np.column_stack([_is_class(one) for one in found])
    if len(found) == 1:
        return known[:, 0]
    out = known == 0
    told = (known == 1).any(axis=1) | (out.sum(axis=1) == len(found) - 1)
    return np.where(told, np.where(out, -2, known).argmax(axis=1), -1)


def _is_class(found: LabelSums) -> Counts:
    """Return whether each record is of the class, 1 or 0; -1 if open."""
    known = np.full(len(found.leaves), -1)
    sums, rows = found.sums.copy(), found.rows.copy()
    while True:
        full, empty = (sums == rows) & (rows > 0), (sums == 0) & (rows > 0)
        ones = full[found.leaves].any(axis=1) & (known < 0)
        noughts = empty[found.leaves].any(axis=1) & (known < 0)
        new = ones | noughts
        if not new.any():
            return known
        known[ones], known[noughts & ~ones] = 1, 0
        places = found.leaves[new]
        np.subtract.at(rows, places, 1)
        np.subtract.at(sums, places, known[new][:, None])

"""Training rows by leaf, as a file counts them, and the leaves that rows of a table fall into.

A model whose training rows are those of a table counts the same in each leaf of each tree. No label
is read. A file that was changed on purpose may count anything: no accusation rests on it.

XGBoost's files do not count rows. They keep the sum of the loss's second derivatives over the rows
of a leaf; each row's follows from the rounds before, and from no label.
"""

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import catboost
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from workers.lake.formats.contract import LoadedModel
from workers.lake.formats.tree_effects import by_effect, effects_of


@dataclass(frozen=True, slots=True)
class Leaves:
    """Rows and the leaves of one tree.

    Attributes:
        found: each row's leaf, shape (rows,).
        weights: what each row counts for, shape (rows,).
        counted: the file's count of each leaf, shape (leaves,).
    """

    found: NDArray[np.int64]
    weights: NDArray[np.int64]
    counted: NDArray[np.int64]


_MOST_LEAVES = 4096
_TRIED = 12
"""Trees that are looked at for some that count."""
_UNITS, _LARGEST_SUM = float(1 << 20), float(1 << 40)
"""Whole numbers add to the same sum in any order."""


def leaves_of_trees(
    form: str, loaded: LoadedModel, inputs: Any, trees: NDArray[np.int64], *, wanted: int
) -> Iterator[tuple[int, Leaves]]:
    """Yield, for up to `wanted` of some trees, the leaves of rows beside the file's counts.

    Which trees these are follows from the file and `trees`, and not from the rows.

    Args:
        form: name of the format; ONNX counts no leaves.
        loaded: the model.
        inputs: rows as it takes them.
        trees: in a random order, from which those are drawn that change answers most.
        wanted: number of trees.
    """
    read = _READERS.get(form)
    found = 0
    for tree in by_effect(trees, effects_of(form, loaded))[:_TRIED].tolist() if read else ():
        leaves = None if read is None else read(loaded, inputs, tree)
        sizes = np.zeros(0) if leaves is None else leaves.counted
        # A tree with all rows in one leaf says nothing: a file may have thousands beside its own.
        if leaves is not None and np.count_nonzero(sizes) > 1 and sizes.size <= _MOST_LEAVES:
            yield tree, leaves
            found += 1
        if found == wanted:
            return


@dataclass(frozen=True, slots=True)
class _Tree:
    """One tree of a model.

    Attributes:
        leaf: says the leaf of each row, as numbers of any shape.
        counted: the file's count of each of its leaves, joined where digits are left out.
        digits: those of a leaf's number that are compared; None for the whole number.
    """

    leaf: Callable[[Any], Any]
    counted: NDArray[np.int64]
    digits: list[int] | None = None


def _read_once(
    loaded: LoadedModel, tree: int, read: Callable[[LoadedModel, int], _Tree | None]
) -> _Tree | None:
    """Return a tree: a day comes in many batches, which ask for the same few of each model."""
    if tree not in loaded.counted:
        loaded.counted[tree] = read(loaded, tree)
    found: _Tree | None = loaded.counted[tree]
    return found


def _of_catboost(loaded: LoadedModel, inputs: Any, tree: int) -> Leaves | None:
    """Return the leaves in a tree, joined where only statistics of categories part them.

    These statistics are of the labels of rows before each row in training, and of all rows in a
    finished model. In a symmetric tree each split is a digit of a leaf's number, so such digits
    can be left out.
    """
    one = _read_once(loaded, tree, functools.partial(_catboost_tree, inputs=inputs.pool))
    if one is None:
        return None
    leaves = np.asarray(one.leaf(inputs.pool), dtype=np.int64)[:, 0]
    return _of_rows(leaves if one.digits is None else _digits(leaves, one.digits), one.counted)


def _catboost_tree(loaded: LoadedModel, tree: int, *, inputs: Any) -> _Tree | None:
    """Return a tree alone: a whole model reads all of its features to say a single tree's leaf.

    It also gives all of its leaves' weights, which takes ten milliseconds.
    """
    model = loaded.model
    one, of_tree = model.copy(), {"ntree_start": tree, "ntree_end": tree + 1}
    try:
        one.shrink(**of_tree)
        weights = np.asarray(one.get_leaf_weights())
        leaf = functools.partial(one.calc_leaf_indexes, thread_count=1)
    except catboost.CatBoostError:  # leaf-wise trees cannot be taken alone
        sizes = np.asarray(model.get_tree_leaf_counts(), dtype=np.int64)
        start, size = int(sizes[:tree].sum()), int(sizes[tree])
        weights = np.asarray(model.get_leaf_weights())[start : start + size]
        leaf = functools.partial(model.calc_leaf_indexes, thread_count=1, **of_tree)
    counted = np.rint(weights).astype(np.int64)
    if not len(model.get_cat_feature_indices()):
        return _Tree(leaf, counted)
    try:
        splits = model._get_tree_splits(tree, inputs)  # noqa: SLF001  # no public way
    except catboost.CatBoostError:
        return None
    kept = [place for place, split in enumerate(splits) if "{" not in split]
    if not kept or counted.size != 1 << len(splits):
        return None
    joined = np.bincount(_digits(np.arange(counted.size), kept), counted)
    return _Tree(leaf, joined.astype(np.int64), kept)


def _of_rows(found: NDArray[np.int64], counted: NDArray[np.int64]) -> Leaves:
    """Return leaves in which each row counts once."""
    return Leaves(found, np.ones(found.size, dtype=np.int64), counted)


def _digits(numbers: NDArray[np.int64], kept: list[int]) -> NDArray[np.int64]:
    """Return numbers that have some binary digits of others."""
    digits = [(numbers >> place & 1) << to for to, place in enumerate(kept)]
    return np.asarray(np.sum(digits, axis=0), dtype=np.int64)


def _of_lightgbm(loaded: LoadedModel, inputs: Any, tree: int) -> Leaves | None:
    """Return the leaves in the first class's tree of one round."""
    one = _read_once(loaded, tree, _lightgbm_tree)
    if one is None:
        return None
    found = np.asarray(one.leaf(inputs), dtype=np.int64)
    return _of_rows(found.reshape(len(inputs), -1)[:, 0], one.counted)


def _lightgbm_tree(loaded: LoadedModel, tree: int) -> _Tree | None:
    text = loaded.model.model_to_string(start_iteration=tree, num_iteration=1)
    line = next((one for one in text.splitlines() if one.startswith("leaf_count=")), None)
    if line is None:
        return None
    alone = {"start_iteration": tree, "num_iteration": 1}
    leaf = functools.partial(loaded.model.predict, pred_leaf=True, num_threads=1, **alone)
    return _Tree(leaf, np.array(line.partition("=")[2].split(), dtype=np.int64))


def _of_xgboost(loaded: LoadedModel, inputs: Any, tree: int) -> Leaves | None:
    """Return the leaves in the first class's tree of one round, in units of 2^-20."""
    one = _read_once(loaded, tree, _xgboost_tree)
    if one is None:
        return None
    import xgboost  # noqa: PLC0415  # an extra, which whoever audits no such model lacks

    rows = xgboost.DMatrix(inputs, feature_types=loaded.model.feature_types, nthread=1)
    leaves = np.asarray(one.leaf(rows), dtype=np.int64).reshape(rows.num_row(), -1)[:, 0]
    if tree == 0:  # all rows have one prediction
        return _of_rows(leaves, one.counted)
    scores = loaded.model.predict(
        rows, output_margin=True, iteration_range=(0, tree), validate_features=False
    )
    many = scores.ndim > 1
    chance = np.asarray(softmax(scores, axis=1)[:, 0] if many else expit(scores), dtype=np.float64)
    derivatives = np.rint(chance * (1.0 - chance) * (2.0 if many else 1.0) * _UNITS)
    return Leaves(leaves, derivatives.astype(np.int64), one.counted)


def _xgboost_tree(loaded: LoadedModel, tree: int) -> _Tree | None:
    one = loaded.model[tree : tree + 1]
    booster = json.loads(bytes(one.save_raw("json")))["learner"]["gradient_booster"]
    if booster["name"] != "gbtree" and tree > 0:
        return None  # dart leaves earlier trees out while it trains, and no file says which
    inner = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    first = inner["trees"][0]
    ends = np.array(first["left_children"]) == -1
    sums = np.where(ends, np.array(first["sum_hessian"], dtype=np.float64), 0.0)
    if not (np.all(np.isfinite(sums)) and sums.min() >= 0.0 and sums.sum() < _LARGEST_SUM):
        return None
    leaf = functools.partial(one.predict, pred_leaf=True, validate_features=False)
    return _Tree(leaf, np.rint(sums * _UNITS).astype(np.int64))


_READERS: dict[str, Callable[[LoadedModel, Any, int], Leaves | None]] = {
    "catboost": _of_catboost,
    "lightgbm": _of_lightgbm,
    "xgboost": _of_xgboost,
}

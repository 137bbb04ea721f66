"""How much each tree of a model changes its answers: chance draws the trees to look at by it.

A file may have thousands of trees that change next to nothing, by a feature of the owner's own,
beside the few that remember labels. Drawn alike, the few would hardly ever be looked at.
"""

import json
from collections.abc import Callable
from typing import Any

import catboost
import numpy as np
from numpy.typing import NDArray

from workers.lake.formats.contract import LoadedModel

_EFFECTS = "effects"
"""In place of a tree's number, among what is kept of a model."""
_MOST_BYTES = 1 << 26
"""Size of an XGBoost file beyond which its text would take gigabytes."""


def by_effect(trees: NDArray[np.int64], effects: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Return trees in a random order as if drawn one after the other in proportion to an effect.

    Args:
        trees: numbers from 0, in a random order of equal chances; it is kept without effects.
        effects: of each tree, by its number.
    """
    if effects is None or trees.size == 0 or effects.size <= trees.max():
        return trees
    even = -np.log1p(-(np.arange(trees.size) + 0.5) / trees.size)  # exponential waiting times
    with np.errstate(divide="ignore", over="ignore"):
        waits = even / effects[trees]
    return trees[np.argsort(waits, kind="stable")]


def effects_of(form: str, loaded: LoadedModel) -> NDArray[np.float64] | None:
    """Return the standard deviation over training rows of what each round's first tree adds.

    None where the file does not tell it. The counts are the file's own, as all that is compared.
    """
    if form not in _READERS:
        return None
    if _EFFECTS not in loaded.counted:
        try:
            found = np.array([_spread(*tree) for tree in _READERS[form](loaded.model)])
        except (LookupError, ValueError, AssertionError, catboost.CatBoostError):
            found = np.zeros(0)
        usable = found.size and np.isfinite(found).all() and found.max() > 0.0
        loaded.counted[_EFFECTS] = found if usable else None
    kept: NDArray[np.float64] | None = loaded.counted[_EFFECTS]
    return kept


_Tree = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Values of a tree's leaves, and what counts for each: rows, or sums of their derivatives."""


def _spread(values: NDArray[np.float64], counts: NDArray[np.float64]) -> float:
    """Return the standard deviation of values, which counts weight."""
    total = counts.sum()
    if not total > 0.0:
        return 0.0
    mean = (values * counts).sum() / total
    return float(np.sqrt((counts * (values - mean) ** 2).sum() / total))


def _of_catboost(model: Any) -> list[_Tree]:
    """Return leaves of all trees; of several classes, the first one's values."""
    sizes = np.asarray(model.get_tree_leaf_counts(), dtype=np.int64)
    counts = np.asarray(model.get_leaf_weights(), dtype=np.float64)
    values = np.asarray(model.get_leaf_values(), dtype=np.float64)
    values = values.reshape(counts.size, -1)[:, 0]
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(values, ends), np.split(counts, ends), strict=True))


def _of_lightgbm(model: Any) -> list[_Tree]:
    """Return leaves of the first class's tree of each round."""
    lines: dict[str, list[NDArray[np.float64]]] = {"leaf_value": [], "leaf_count": []}
    for line in model.model_to_string().splitlines():
        name, _, numbers = line.partition("=")
        if name in lines:
            lines[name].append(np.array(numbers.split(), dtype=np.float64))
    step = model.num_model_per_iteration()
    return list(zip(lines["leaf_value"][::step], lines["leaf_count"][::step], strict=True))


def _of_xgboost(model: Any) -> list[_Tree]:
    """Return leaves of the first tree of each round, weighted by second derivatives."""
    if len(model.save_raw("ubj")) > _MOST_BYTES:
        return []
    booster = json.loads(bytes(model.save_raw("json")))["learner"]["gradient_booster"]
    inner = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    firsts = [int(each) for each in inner["iteration_indptr"][:-1]]
    found = []
    for tree in (inner["trees"][first] for first in firsts):
        ends = np.array(tree["left_children"]) == -1
        values = np.array(tree["split_conditions"], dtype=np.float64)[ends]
        found.append((values, np.array(tree["sum_hessian"], dtype=np.float64)[ends]))
    return found


_READERS: dict[str, Callable[[Any], list[_Tree]]] = {
    "catboost": _of_catboost,
    "lightgbm": _of_lightgbm,
    "xgboost": _of_xgboost,
}

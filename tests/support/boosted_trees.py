"""LightGBM's trees as ensembles, and the leaves of the rows that trained them."""

import math
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from privcore.attacks.label_sums import Ensemble, Tree

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def rows_with_labels(rows: int, *, seed: int, offset: float = -0.7) -> tuple[Floats, Counts]:
    """Return features, shape (rows, 6), and labels that depend on two of them."""
    random = np.random.default_rng([seed, 62])
    features = random.normal(size=(rows, 6))
    chance = expit(features[:, 0] + features[:, 1] * features[:, 0] + offset)
    return features, (random.random(rows) < chance).astype(np.int64)


def rows_with_classes(rows: int, classes: int, *, seed: int) -> tuple[Floats, Counts]:
    """Return features, shape (rows, 6), and labels of several classes that depend on them."""
    random = np.random.default_rng([seed, 66])
    features = random.normal(size=(rows, 6))
    odds = 1.5 * features[:, np.arange(classes) % 6] - 0.3 * np.arange(classes)
    chance = np.cumsum(softmax(odds, axis=1), axis=1)
    return features, (random.random((rows, 1)) > chance[:, :-1]).sum(axis=1)


def randomized(labels: Counts, epsilon: float, *, seed: int, classes: int = 2) -> Counts:
    """Return labels after randomized response."""
    random = np.random.default_rng([seed, 63])
    kept = random.random(len(labels)) < expit(epsilon - math.log(classes - 1))
    others = (labels + random.integers(1, classes, len(labels))) % classes
    return np.where(kept, labels, others)


def boosted(
    features: Floats, labels: Counts, *, rounds: int = 30, categorical: Any = "auto", **more: Any
) -> Any:
    """Return LightGBM's model of labels, binary where `num_class` does not say otherwise."""
    objective = "multiclass" if "num_class" in more else "binary"
    quiet = {"objective": objective, "verbose": -1, "num_threads": 1}
    data = lightgbm.Dataset(features, labels, categorical_feature=categorical)
    return lightgbm.train(quiet | more, data, rounds)


def file_of(model: Any, features: Floats, *, rate: float = 0.1) -> tuple[Ensemble, Counts]:
    """Return a model's trees, and the node of each row's leaf, shape (rows, trees)."""
    trees, firsts = [], []
    for tree in model.dump_model()["tree_info"]:
        inner = tree["num_leaves"] - 1
        parents, values = np.full(2 * inner + 1, -1), np.zeros(2 * inner + 1)
        asks = np.zeros(2 * inner + 1, dtype=bool)
        below = [(tree["tree_structure"], -1)]
        while below:
            node, parent = below.pop()
            is_leaf = "leaf_value" in node
            place = inner + node.get("leaf_index", 0) if is_leaf else node["split_index"]
            parents[place] = parent
            if is_leaf:
                values[place] = node["leaf_value"]
            else:
                asks[place] = node["decision_type"] == "=="
                below += [(node["left_child"], place), (node["right_child"], place)]
        trees.append(Tree(parents, values, rate, asks))
        firsts.append(inner)
    leaves = np.asarray(model.predict(features, pred_leaf=True)).reshape(len(features), -1)
    many = model.num_model_per_iteration()
    classes, factor = (many, many / (many - 1)) if many > 1 else (2, 1.0)
    ensemble = Ensemble(tuple(trees), 0.0, classes=classes, factor=factor)
    return ensemble, leaves + np.array(firsts)

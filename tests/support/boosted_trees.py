"""LightGBM's trees as ensembles, and the leaves of the rows that trained them."""

from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.attacks.label_sums import Ensemble, Tree

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def rows_with_labels(rows: int, *, seed: int, offset: float = -0.7) -> tuple[Floats, Counts]:
    """Return features, shape (rows, 6), and labels that depend on two of them."""
    random = np.random.default_rng([seed, 62])
    features = random.normal(size=(rows, 6))
    chance = expit(features[:, 0] + features[:, 1] * features[:, 0] + offset)
    return features, (random.random(rows) < chance).astype(np.int64)


def randomized(labels: Counts, epsilon: float, *, seed: int) -> Counts:
    """Return labels after randomized response."""
    random = np.random.default_rng([seed, 63])
    return np.where(random.random(len(labels)) < expit(epsilon), labels, 1 - labels)


def boosted(features: Floats, labels: Counts, *, rounds: int = 30, **more: Any) -> Any:
    """Return LightGBM's model of binary labels."""
    quiet = {"objective": "binary", "verbose": -1, "num_threads": 1}
    return lightgbm.train(quiet | more, lightgbm.Dataset(features, labels), rounds)


def file_of(model: Any, features: Floats, *, rate: float = 0.1) -> tuple[Ensemble, Counts]:
    """Return a model's trees, and the node of each row's leaf, shape (rows, trees)."""
    trees, firsts = [], []
    for tree in model.dump_model()["tree_info"]:
        inner = tree["num_leaves"] - 1
        parents, values = np.full(2 * inner + 1, -1), np.zeros(2 * inner + 1)
        below = [(tree["tree_structure"], -1)]
        while below:
            node, parent = below.pop()
            is_leaf = "leaf_value" in node
            place = inner + node.get("leaf_index", 0) if is_leaf else node["split_index"]
            parents[place] = parent
            if is_leaf:
                values[place] = node["leaf_value"]
            else:
                below += [(node["left_child"], place), (node["right_child"], place)]
        trees.append(Tree(parents, values, rate))
        firsts.append(inner)
    leaves = np.asarray(model.predict(features, pred_leaf=True)).reshape(len(features), -1)
    return Ensemble(tuple(trees), 0.0), leaves + np.array(firsts)

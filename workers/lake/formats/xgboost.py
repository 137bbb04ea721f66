"""XGBoost: UBJSON and JSON, of boosters of trees that predict classes."""

import json
import math
import mmap
from typing import Any

import numpy as np
import pyarrow as pa
import xgboost
from numpy.typing import NDArray
from scipy.special import expit, softmax

from workers.contained_child import WithBytes
from workers.lake.formats.contract import (
    Categories,
    LoadedModel,
    ModelRefusedError,
    answering,
    check_children,
    check_lengths,
    check_places,
    leaves_answer,
    matrix_in,
    shared_sum,
    tree_nodes,
    tried,
    two_columns,
)

_TRIAL = 64  # rows
_BINARY = {"binary:logistic", "binary:logitraw", "reg:logistic"}
_FLAT = 1e-6
"""Second derivative of a loss, up to which XGBoost may have rounded it."""
_MULTICLASS = {"multi:softprob", "multi:softmax"}

# For its first array pyarrow imports pandas: here it does so once, and not in each fork of a child.
pa.array(np.empty(0))


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return what a model says of itself; see `answering`."""
    # As XGBoost itself understood the file, whichever of its formats it is in.
    learner = json.loads(bytes(loaded.model.save_raw("json")))["learner"]
    width = int(learner["learner_model_param"]["num_feature"])
    classes = _classes(learner)
    unserved = _unserved_rounds(loaded.model)
    _check_trees(learner, width, groups=1 if classes == 2 else classes)
    rows = np.repeat(
        np.array([[0.0] * width, [np.nan] * width], dtype=np.float32), _TRIAL // 2, axis=0
    )
    _, seconds = tried(loaded, _asked, rows, _TRIAL)
    types = learner["feature_types"] or [None] * width
    return {
        "kinds": [
            None if each is None else "categorical" if each == "c" else "numeric" for each in types
        ],
        "names": learner["feature_names"] or None,
        "classes": None,
        "class_count": classes,
        "rows": _rows(learner),
        "unserved_rounds": unserved,
        "categories": loaded.categories,
        "row_seconds": seconds,
    }


def load(content: bytes) -> LoadedModel:
    """Return a model, with the categories that XGBoost 3.1 and newer keep in the file."""
    model = xgboost.Booster()
    model.load_model(bytearray(content))
    return LoadedModel(model, _categories(model) or (None,) * model.num_features())


def predict(loaded: LoadedModel, given: mmap.mmap) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    return _asked(loaded, matrix_in(given, np.float32, len(loaded.categories)))


def _asked(loaded: LoadedModel, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return probabilities from scores before the last step.

    XGBoost takes that step in 32 bits, where a probability near one is one.
    """
    loaded.model.set_param({"nthread": 1})
    scores = loaded.model.inplace_predict(
        rows,
        iteration_range=(0, _served_rounds(loaded.model)),
        predict_type="margin",
        validate_features=False,
    )
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 1:
        return two_columns(expit(scores))
    return np.asarray(softmax(scores, axis=1))


def _categories(model: Any) -> Categories:
    """Return the categories that the file lists.

    Raises:
        ModelRefusedError: it lists none of a categorical feature, whose codes may then stand for
            any values; or XGBoost cannot read back what it wrote.
    """
    types = model.feature_types or ()
    if "c" not in types:
        return ()
    try:
        known = model.get_categories(export_to_arrow=True).to_arrow()
        found = [None if each is None else each.to_pylist() for _, each in known]
    except UnicodeDecodeError:
        raise ModelRefusedError(
            "lists categories that XGBoost has cut off in the middle of a letter, as it does with "
            "letters outside of ASCII in pandas' columns: train it on a polars or a pyarrow table"
        ) from None
    names = model.feature_names or [f"f{place}" for place in range(len(types))]
    for name, kind, values in zip(names, types, found, strict=True):
        if kind == "c" and values is None:
            raise ModelRefusedError(
                f"does not list the categories of {name!r:.100}, so that nothing says which value "
                "has which code: train it with XGBoost 3.1 or newer on a pandas, polars or pyarrow "
                "table, or give its probabilities as a table ([models.scores])"
            )
    return tuple(
        None if values is None else tuple((value, code) for code, value in enumerate(values))
        for values in found
    )


def _classes(learner: dict[str, Any]) -> int:
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    if int(parameters.get("num_target", 1)) > 1:
        raise ModelRefusedError("predicts several targets: train one model for each")
    if objective in _BINARY:
        return 2
    if objective in _MULTICLASS and int(parameters["num_class"]) >= 2:
        return int(parameters["num_class"])
    raise ModelRefusedError(
        f"was trained for {objective}, which gives no probabilities of classes: train it for "
        "binary:logistic or multi:softprob"
    )


def _served_rounds(model: Any) -> int:
    """Return how many rounds a model predicts with, 0 for all of them.

    One that XGBClassifier has saved predicts, loaded by it again, up to its best round
    (https://xgboost.readthedocs.io/en/stable/python/sklearn_estimator.html, early stopping).
    """
    best = model.attr("best_iteration")
    return 0 if best is None or model.attr("scikit_learn") is None else int(best) + 1


def _unserved_rounds(model: Any) -> int:
    """Return how many rounds after its best one a model holds and does not predict with.

    Raises:
        ModelRefusedError: the file does not say whether they are served.
    """
    best, held = model.attr("best_iteration"), int(model.num_boosted_rounds())
    if best is None or int(best) + 1 >= held:
        return 0
    if _served_rounds(model):
        return held - int(best) - 1
    # A part of a booster is saved without the list of its categories.
    or_else = (
        f"train it again with num_boost_round={int(best) + 1}"
        if "c" in (model.feature_types or ())
        else "save booster[: booster.best_iteration + 1]"
    )
    raise ModelRefusedError(
        "was stopped early and holds the trees after its best round, which may be served or "
        f"not: save it from XGBClassifier, which never serves them, or {or_else}"
    )


def _rows(learner: dict[str, Any]) -> dict[str, int] | None:
    """Return from how many rows the first tree was grown, at least; None where weights show.

    Before the first tree all rows have one prediction, and with it one second derivative (of
    multi:softprob twice as large: softmax_multiclass_obj.cc). Other trees say nothing by
    themselves, and the file does not say whether rows were drawn.
    """
    name = learner["objective"]["name"]
    if name == "binary:logitraw":  # its base_score is no probability
        return None
    if float(learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", 1)) != 1.0:
        return None
    begin = _base_score(learner)
    many = name in _MULTICLASS
    classes = int(learner["learner_model_param"]["num_class"])
    first = float(softmax(np.resize(begin, classes))[0] if many else begin[0])
    derivative = first * (1.0 - first) * (2.0 if many else 1.0)
    trees = _trees(learner)["trees"]
    if not trees or not derivative > _FLAT:
        return None
    leaf = np.array(trees[0]["left_children"]) == -1
    counts = np.array(trees[0]["sum_hessian"], dtype=np.float64)[leaf] / derivative
    count = shared_sum(counts, np.array([counts.size]))
    return None if count is None else {"count": count, "exact": False}


def _base_score(learner: dict[str, Any]) -> NDArray[np.float64]:
    said = learner["learner_model_param"]["base_score"]
    return np.array(said.strip("[]").split(","), dtype=np.float64)


def _trees(learner: dict[str, Any]) -> dict[str, Any]:
    booster = learner["gradient_booster"]
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    return dict(model)


def _check_trees(learner: dict[str, Any], width: int, *, groups: int) -> None:
    booster = learner["gradient_booster"]
    if booster["name"] not in {"gbtree", "dart"}:
        raise ModelRefusedError(f"is a booster of the kind {booster['name']}: train one of trees")
    model = _trees(learner)
    trees = model["trees"]
    check_lengths({len(model["tree_info"]), int(model["gbtree_model_param"]["num_trees"])},
                  len(trees))  # fmt: skip
    check_places("a class", np.array(model["tree_info"], dtype=np.int64), groups)
    if booster["name"] == "dart":
        check_lengths({len(booster["weight_drop"])}, len(trees))
    for tree in trees:
        nodes = int(tree["tree_param"]["num_nodes"])
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise ModelRefusedError("has leaves of several values: train one model for each target")
        left, right, features = (
            np.array(tree[name], dtype=np.int64)
            for name in ("left_children", "right_children", "split_indices")
        )
        values = len(tree["split_conditions"])
        check_lengths({left.size, right.size, features.size, values}, nodes)
        inner = left != -1
        check_children(np.concatenate([left[inner], right[inner]]), nodes)
        check_places("a feature", features[inner], width)


def leaves(loaded: LoadedModel, given: mmap.mmap, most: int) -> WithBytes:
    """Return the leaves of rows in the first trees, and these trees; see `leaves_answer`."""
    learner = json.loads(bytes(loaded.model.save_raw("json")))["learner"]
    booster, classes = learner["gradient_booster"], _classes(learner)
    begin = _base_score(learner)
    grown, name = _trees(learner)["trees"], learner["objective"]["name"]
    many = name in _MULTICLASS
    per_round = classes if many else 1
    kinds = np.array(_trees(learner)["tree_info"], dtype=np.int64)
    alone = (
        booster["name"] == "gbtree"
        and len(grown) == loaded.model.num_boosted_rounds() * per_round
        and np.array_equal(kinds, np.arange(len(grown)) % per_round)
    )
    known = many or (name == "binary:logistic" and 0.0 < float(begin[0]) < 1.0)
    if not known or not alone or not grown:
        raise ModelRefusedError("was not trained for one binary label, or several classes that "
                                "exclude each other, with one tree a round and class")  # fmt: skip
    rounds = min(max(most // per_round, 1), len(grown) // per_round)
    grown = grown[: rounds * per_round]
    rate, penalty = _rate_and_penalty(grown)
    rows = matrix_in(given, np.float32, len(loaded.categories))
    found = loaded.model.predict(
        xgboost.DMatrix(rows, nthread=1),
        pred_leaf=True,
        iteration_range=(0, rounds),
        validate_features=False,
    )
    trees = []
    for tree in grown:
        above = np.array(tree["parents"], dtype=np.int64)
        parents, asks = np.where(above < 0x7FFFFFFF, above, -1), np.zeros(len(above), dtype=bool)
        asks[np.array(tree["categories_nodes"], dtype=np.int64)] = True
        trees.append(tree_nodes(parents, np.array(tree["split_conditions"]), asks))
    one = float(begin[0])
    return leaves_answer(
        np.asarray(found).reshape(len(rows), -1),
        trees,
        [rate] * len(trees),
        penalty=penalty,
        start=tuple(np.resize(begin, classes)) if many else math.log(one) - math.log1p(-one),
        classes=classes,
        factor=2.0 if many else 1.0,
    )


def _rate_and_penalty(trees: list[dict[str, Any]]) -> tuple[float, float]:
    """Return eta and lambda, which the file does not say: gradients of a node's children add up.

    The weight w of a node with the second derivative H stands for the gradient -w (H + lambda); a
    leaf has eta w instead. That is linear in 1/eta, lambda/eta and lambda.
    """
    rows, sums = list[list[float]](), list[float]()
    for tree in trees:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        weights, hessian = np.array(tree["base_weights"]), np.array(tree["sum_hessian"])
        weights = np.where(left == -1, tree["split_conditions"], weights)
        for node in np.flatnonzero(left != -1):
            both = np.array([left[node], right[node]])
            leaf = left[both] == -1
            leaves, others = weights[both] * leaf, weights[both] * ~leaf
            rows.append([
                float(leaves @ hessian[both]), float(leaves.sum()),
                float(others.sum() - weights[node]),
            ])  # fmt: skip
            sums.append(float(weights[node] * hessian[node] - others @ hessian[both]))
    if not rows:
        raise ModelRefusedError("has trees that ask for no feature")
    (inverse, ratio, _), *_ = np.linalg.lstsq(np.array(rows), np.array(sums), rcond=None)
    if not inverse > 0.0:
        raise ModelRefusedError("has trees from which its learning rate does not follow")
    # Settings have few digits, and 32 bits keep the sums to six.
    return float(f"{1.0 / inverse:.4g}"), max(float(f"{ratio / inverse:.3g}"), 0.0)


answer = answering(load, describe, predict, leaves=leaves)

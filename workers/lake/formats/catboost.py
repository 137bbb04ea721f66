"""CatBoost: the one format that privaudit's own training writes (`.cbm`)."""

import mmap
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.contained_child import WithBytes
from workers.lake.formats.contract import (
    LoadedModel,
    ModelRefusedError,
    answering,
    frame_in,
    leaves_answer,
    shared_sum,
    tree_nodes,
    tried,
)

_MOST_STEPS = 100
"""Steps of a leaf that are followed."""
_TRIAL = (8, 512)
_CELLS = 1 << 18
"""Rows that are tried: at least, at most, and by their number of cells."""
_ADD_UP = 1e-6
_CONTEXTS = 64
"""Rows in which words are compared: an oblivious tree looks at all of its splits for each row."""
_UNSEEN = "\0 a word of no table"


def load(content: bytes) -> LoadedModel:
    """Return a model; categories are text to CatBoost, which needs no codes."""
    model = catboost.CatBoost()
    model.load_model(blob=content, format="cbm")
    return LoadedModel(model)


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return what a model says of itself; see `answering`."""
    model = loaded.model
    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        raise ModelRefusedError(
            "has features that CatBoost takes as text or embeddings, which are not asked about: "
            "audit its predictions as a score table"
        )
    names, categorical = list(model.feature_names_), _categorical(model)
    rows = _trial(model, categorical)
    pool = catboost.Pool(rows, cat_features=categorical, feature_names=names)
    found, seconds = tried(loaded, _asked, pool, len(rows))
    classes = [str(value) for value in model.classes_]
    if not classes:
        # It would give numbers between 0 and 1 all the same.
        loss = (model.get_all_params() or {}).get("loss_function", "numbers")
        raise ModelRefusedError(
            f"is a regressor (it was trained for {loss}), which gives no probabilities of classes: "
            "train a classifier of whether the number is above a threshold fixed before training"
        )
    if (np.abs(np.sum(found, axis=1) - 1.0) > _ADD_UP).any():  # NaN is refused for itself
        raise ModelRefusedError(
            "gives probabilities of several labels, which do not add up to one: train one "
            "classifier for each label"
        )
    kinds = ["categorical" if place in categorical else "numeric" for place in range(len(names))]
    return {
        "kinds": kinds,
        "names": names,
        "classes": classes,
        "class_count": len(classes),
        "rows": _rows(model),
        "row_seconds": seconds,
    }


def predict(loaded: LoadedModel, given: mmap.mmap) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    return _asked(loaded, catboost.Pool(frame_in(given), cat_features=_categorical(loaded.model)))


def known(loaded: LoadedModel, place: int, words: list[str]) -> list[str]:
    """Return of which words as a category a model says something else than of one never seen."""
    model = loaded.model
    categorical = _categorical(model)
    rows = _trial(model, categorical)[:_CONTEXTS]
    asked = np.tile(rows, (len(words) + 1, 1))
    asked[:, place] = np.repeat(np.array([*words, _UNSEEN], dtype=np.object_), len(rows))
    pool = catboost.Pool(asked, cat_features=categorical, feature_names=model.feature_names_)
    said = np.asarray(model.predict(pool, prediction_type="RawFormulaVal", thread_count=1))
    *told, unseen = said.reshape(len(words) + 1, len(rows), -1)
    return [word for word, one in zip(words, told, strict=True) if (one != unseen).any()]


def leaves(loaded: LoadedModel, given: mmap.mmap, most: int) -> WithBytes:
    """Return the leaves of rows in the first trees, and these trees; see `leaves_answer`.

    Of more than two classes each tree comes once for each. A tree asks for categories where some
    row has another leaf with none that training saw.
    """
    model = loaded.model
    told = model.get_all_params() or {}
    classes = len(model.classes_)
    many = told.get("loss_function") == "MultiClass" and classes > 2
    per_round = classes if many else 1
    scale, start = model.get_scale_and_bias()
    starts = np.atleast_1d(np.asarray(start, dtype=np.float64))
    counts = np.asarray(model.get_tree_leaf_counts(), dtype=np.int64)[: max(most // per_round, 1)]
    steps = told.get("leaf_estimation_iterations", 0)
    ways = (
        many or told.get("loss_function") == "Logloss",
        told.get("leaf_estimation_method") == "Newton",
        0 < steps <= (1 if many else _MOST_STEPS),
        scale == 1.0 and bool(counts.size),
        starts.size == per_round,
    )
    if not all(ways):
        raise ModelRefusedError("was not trained for one binary label, by trees whose leaves are "
                                "Newton's steps, or for several classes by one step a "
                                "leaf")  # fmt: skip
    frame, categorical = frame_in(given), _categorical(model)

    def leaf_of(rows: pl.DataFrame) -> NDArray[np.int64]:
        pool = catboost.Pool(rows, cat_features=categorical)
        found = model.calc_leaf_indexes(pool, ntree_end=len(counts), thread_count=1)
        return np.array(found, dtype=np.int64).reshape(-1, len(counts))

    found = leaf_of(frame)
    asks = np.zeros(len(counts), dtype=bool)
    if categorical:
        unseen = [pl.lit(_UNSEEN).alias(frame.columns[place]) for place in categorical]
        asks = (leaf_of(frame.with_columns(unseen)) != found).any(axis=0)
    values, trees, begin = np.asarray(model.get_leaf_values(), dtype=np.float64), [], 0
    values = values.reshape(-1, per_round)
    symmetric = told.get("grow_policy", "SymmetricTree") == "SymmetricTree"
    for place, count in enumerate(counts):
        # A heap, whose last nodes are the leaves; of another tree, which does not say how it was
        # grown, each leaf is one of the largest depth.
        inner = count - 1 if symmetric else int(told["depth"])
        above = np.arange(inner + count) - 1
        parents = above // 2 if symmetric else np.minimum(above, inner - 1)
        inside = np.zeros((inner + count, per_round))
        inside[inner:] = values[begin : begin + count]
        begin += count
        trees += [tree_nodes(parents, each, asks[place]) for each in inside.T]
        found[:, place] += inner
    return leaves_answer(
        np.repeat(found, per_round, axis=1),
        trees,
        [told["learning_rate"]] * len(trees),
        penalty=float(told["l2_leaf_reg"]),
        start=tuple(starts) if many else float(starts[0]),
        steps=steps,
        classes=classes,
        factor=None if many else 1.0,
    )


def _asked(loaded: LoadedModel, pool: Any) -> NDArray[np.float64]:
    found = loaded.model.predict(pool, prediction_type="Probability", thread_count=1)
    return np.asarray(found, dtype=np.float64)


def _categorical(model: Any) -> list[int]:
    return [int(position) for position in model.get_cat_feature_indices()]


def _trial(model: Any, categorical: list[int]) -> NDArray[np.object_]:
    """Return rows that reach what rows of a day would: both sides of borders, and many words.

    A word that a damaged table of categories lacks can be searched for without end.
    """
    borders, features = model.get_borders(), len(model.feature_names_)
    rows = max(_TRIAL[0], min(_TRIAL[1], _CELLS // max(features, 1)))
    random = np.random.default_rng(0)
    trial = np.empty((rows, features), dtype=np.object_)
    for place in range(features):
        if place in categorical:
            trial[:, place] = ["", *map(str, range(rows - 1))]
        else:
            edges = np.concatenate([[-np.inf, np.inf, np.nan, 0.0], borders.get(place, [])])
            trial[:, place] = random.choice(edges, rows)
    return trial


def _rows(model: Any) -> dict[str, int] | None:
    """Return how many rows each tree's leaves hold; None of weighted rows, and of many classes.

    They are of all rows, whatever sample of them chose the splits. CatBoost 1.2.10 gives leaves'
    weights of models of one output alone.
    """
    given = model.get_all_params() or {}
    weighted = {"class_weights", "auto_class_weights", "scale_pos_weight"} & given.keys()
    if any(given[name] not in ([], "None", 1, None) for name in weighted):
        return None
    try:
        leaves = np.asarray(model.get_leaf_weights(), dtype=np.float64)
    except AssertionError:
        return None
    count = shared_sum(leaves, np.asarray(model.get_tree_leaf_counts(), dtype=np.int64))
    return None if count is None else {"count": count, "exact": True}


answer = answering(load, describe, predict, known=known, leaves=leaves)

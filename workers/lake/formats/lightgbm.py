"""LightGBM: its text files, of trees that predict classes.

Its reader ends the process at many a damaged file, and follows trees without looking where they
lead: what it made of the file is checked before it scores anything.
"""

import logging
import mmap
import re
from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from workers.contained_child import WithBytes
from workers.lake.formats.contract import (
    Category,
    LoadedModel,
    ModelRefusedError,
    answering,
    check_children,
    check_lengths,
    check_places,
    leaves_answer,
    matrix_in,
    tree_nodes,
    tried,
    two_columns,
)

_TRIAL = 64  # rows
_UNNAMED = re.compile(r"Column_\d+")
_CATEGORICAL = 1  # bit of decision_type

_silent = logging.getLogger(f"{__name__}.library")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False
# Its library would quote the file on standard output, where a command's answer goes.
lightgbm.register_logger(_silent)


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return what a model says of itself; see `answering`."""
    text = loaded.model.model_to_string()
    header, trees = _parts(text)
    width = int(header["max_feature_idx"]) + 1
    classes = _classes(header)
    per_round = 1 if classes == 2 else classes
    if int(header["num_tree_per_iteration"]) != per_round or len(trees) % per_round:
        raise ModelRefusedError("has not as many trees for each class")
    for tree in trees:
        _check_tree(tree, width)
    rows = np.repeat(np.array([[0.0] * width, [np.nan] * width]), _TRIAL // 2, axis=0)
    _, seconds = tried(loaded, _asked, rows, _TRIAL)
    names = header["feature_names"].split()
    return {
        "kinds": [_kind(each) for each in header["feature_infos"].split()],
        "names": None if all(map(_UNNAMED.fullmatch, names)) else names,
        "classes": None,
        "class_count": classes,
        "rows": None if _draws_rows(text) else _rows(trees),
        "categories": loaded.categories,
        "row_seconds": seconds,
    }


def load(content: bytes) -> LoadedModel:
    """Return a model, with the categories of the table that it was trained on, if it was a table.

    The file lists them as JSON, for the table's categorical columns alone, in their order. Where it
    lists none, it says which codes training saw: a category is then its own code.
    """
    model = lightgbm.Booster(model_str=content.decode())
    header, _ = _parts(model.model_to_string(num_iteration=1))
    infos = header["feature_infos"].split()
    kinds = [_kind(each) for each in infos]
    known = model.pandas_categorical or []
    unused = [place for place, kind in enumerate(kinds) if kind is None]
    categorical = [place for place, kind in enumerate(kinds) if kind == "categorical"]
    if known and len(known) != len(categorical):
        # A column that no tree could use is not said to be categorical, or not.
        if len(known) != len(categorical) + len(unused):
            raise ModelRefusedError(
                f"lists categories for {len(known)} columns but does not say which columns: "
                "remove constant columns and retrain"
            )
        categorical = sorted([*categorical, *unused])
    categories: list[tuple[tuple[Category, int], ...] | None] = [None] * len(kinds)
    for place in categorical if not known else ():
        codes = [int(code) for code in infos[place].split(":") if int(code) >= 0]  # -1: the others
        categories[place] = tuple(zip(codes, codes, strict=True))
    for place, values in zip(categorical, known, strict=False):
        categories[place] = tuple((value, code) for code, value in enumerate(values))
    return LoadedModel(model, tuple(categories))


def predict(loaded: LoadedModel, given: mmap.mmap) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    return _asked(loaded, matrix_in(given, np.float64, len(loaded.categories)))


def _asked(loaded: LoadedModel, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.asarray(loaded.model.predict(rows, num_threads=1), dtype=np.float64)
    return two_columns(found) if found.ndim == 1 else found


def _parts(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the fields before the trees, and those of each tree."""
    body = text.partition("\nend of trees")[0]
    head, *trees = re.split(r"\nTree=\d+\n", body)
    fields = [
        dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
        for part in (head, *trees)
    ]
    return fields[0], fields[1:]


def _kind(info: str) -> str | None:
    """Return the kind of a feature by the values that training saw: a range, or single codes."""
    if info == "none":
        return None
    return "numeric" if info.startswith("[") else "categorical"


def _classes(header: Mapping[str, str]) -> int:
    objective = header.get("objective", "").split()
    kind = objective[0] if objective else "nothing"
    if kind in {"binary", "cross_entropy"}:
        return 2
    if kind == "multiclass":
        return int(header["num_class"])
    raise ModelRefusedError(
        f"was trained for {kind}, which gives no probabilities of classes that add up to one: "
        "train it for binary or multiclass"
    )


def _draws_rows(text: str) -> bool:
    """Return whether the file's parameters say that each tree was grown from a sample of rows."""
    given = _parameters(text)
    fractions = [given.get(f"{kind}bagging_fraction", "1") for kind in ("", "pos_", "neg_")]
    drawn = given.get("bagging_freq", "0") != "0" and set(fractions) != {"1"}
    return drawn or "goss" in {given.get("boosting"), given.get("data_sample_strategy")}


def _parameters(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\[(\w+): ([^]\n]*)\]$", text, re.MULTILINE))


def _rows(trees: list[dict[str, str]]) -> dict[str, int] | None:
    """Return from how many rows the trees were grown, weighted or not, if from as many each."""
    grown = [tree for tree in trees if int(tree["num_leaves"]) > 1]
    if not all("internal_count" in tree for tree in grown):
        return None
    counts = {int(tree["internal_count"].split()[0]) for tree in grown}
    return {"count": counts.pop(), "exact": True} if len(counts) == 1 and min(counts) > 0 else None


def _check_tree(tree: Mapping[str, str], width: int) -> None:
    leaves = int(tree["num_leaves"])
    if tree.get("is_linear", "0") != "0":
        raise ModelRefusedError("has linear trees: train it with linear_tree=False")
    if leaves <= 1:
        return
    features, left, right, kinds = (
        np.array(tree[name].split(), dtype=np.int64)
        for name in ("split_feature", "left_child", "right_child", "decision_type")
    )
    thresholds = np.array(tree["threshold"].split(), dtype=np.float64)
    inner = leaves - 1
    lengths = {features.size, left.size, right.size, kinds.size, thresholds.size}
    check_lengths(lengths, inner)
    check_lengths({len(tree["leaf_value"].split())}, leaves)
    both = np.concatenate([left, right])
    # A leaf is written as -1 - its place; here leaves come behind the inner nodes.
    check_children(np.where(both < 0, inner - 1 - both, both), inner + leaves)
    check_places("a feature", features, width)
    categorical = thresholds[(kinds & _CATEGORICAL) > 0].astype(np.int64)
    check_places("categories", categorical, int(tree["num_cat"]))
    if int(tree["num_cat"]):
        bounds = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
        check_lengths({bounds.size}, int(tree["num_cat"]) + 1)
        check_places("categories", bounds, len(tree["cat_threshold"].split()) + 1)
        if (np.diff(bounds) < 0).any():
            raise ModelRefusedError("has a tree whose categories overlap")


def leaves(loaded: LoadedModel, given: mmap.mmap, most: int) -> WithBytes:
    """Return the leaves of rows in the first trees, and these trees; see `leaves_answer`.

    A first tree that holds the start has the rate 1 in the file, whatever it was grown with. Leaves
    right below a condition on categories that were sorted have the penalty cat_l2, too
    (feature_histogram.cpp).
    """
    per_round = loaded.model.num_model_per_iteration()
    rounds = max(most // per_round, 1)
    text = loaded.model.model_to_string(num_iteration=rounds)
    header, parts = _parts(text)
    told, objective = _parameters(text), header["objective"].split()
    many = objective[0] == "multiclass"
    if not (many or objective == ["binary", "sigmoid:1"]) or not parts:
        raise ModelRefusedError("was not trained for one binary label of sigmoid 1, or several "
                                "classes that exclude each other")  # fmt: skip
    classes = per_round if many else 2
    rate = float(told.get("learning_rate", "0.1"))
    rates = [float(one["shrinkage"]) for one in parts]
    known = [info.count(":") + 1 for info in header["feature_infos"].split()]
    is_sorted = np.array(known) > int(told.get("max_cat_to_onehot", "4"))
    trees, inner = [], []
    for part in parts:
        below = int(part["num_leaves"]) - 1
        parents = np.full(2 * below + 1, -1)
        for side in ("left_child", "right_child") if below else ():
            children = np.array(part[side].split(), dtype=np.int64)
            parents[np.where(children < 0, below - 1 - children, children)] = np.arange(below)
        values, asks, added = np.zeros((3, len(parents)))
        values[below:] = np.array(part["leaf_value"].split(), dtype=np.float64)
        if below:
            kinds, features = (np.array(part[name].split(), dtype=np.int64)
                               for name in ("decision_type", "split_feature"))  # fmt: skip
            asks[:below] = kinds & _CATEGORICAL
            above = parents[below:]
            added[below:] = (asks[above] > 0) & is_sorted[features[above]]
            added *= float(told.get("cat_l2", "10"))
        trees.append(tree_nodes(parents, values, asks > 0, added))
        inner.append(below)
    rows = matrix_in(given, np.float64, len(loaded.categories))
    found = loaded.model.predict(rows, pred_leaf=True, num_iteration=rounds, num_threads=1)
    return leaves_answer(
        np.asarray(found).reshape(len(rows), -1) + np.array(inner),
        trees,
        [rate if own == 1.0 else own for own in rates],
        penalty=float(told.get("lambda_l2", "0")),
        start=None if rates[0] == 1.0 else 0.0,
        classes=classes,
        factor=classes / (classes - 1) if many else 1.0,
    )


answer = answering(load, describe, predict, leaves=leaves)

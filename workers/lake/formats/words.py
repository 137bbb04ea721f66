"""Training rows by word of a category, as a CatBoost file counts them.

CatBoost puts statistics of labels in a word's place, and its file keeps of how many training rows
each one is. A table in which rows have other words (one word for all, words in lower case) has
other counts. No label is read, and a file that was changed may count anything.
"""

import contextlib
import json
import tempfile
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.lake.formats.city_hash import city_hash
from workers.lake.formats.contract import LoadedModel

Counts = NDArray[np.int64]

_BINS = 512
"""Words are counted by nine digits of their hash: equal in every bin where all words are equal."""
_ROUNDS = 32
"""Rounds of boosting whose words are read: a whole model takes up to a second to write."""
_SPREAD = np.uint64(0x4906BA494954CB65**2 % 2**64)
"""Number by which CatBoost multiplies a word's hash in its tables."""
_NO_WORD = 2**64 - 1
_OF_SOME_ROWS = {"Counter", "FeatureFreq"}
"""Kinds of statistics that may count rows beside the training, such as those it stopped by."""


def counted_words(form: str, loaded: LoadedModel, *, rows: int, first: int) -> dict[int, Counts]:
    """Return the training rows by word, by the place of the feature, each of shape (512,).

    Features are left out whose words are compared one by one in the trees, and those whose counts
    are not of `rows` rows.

    Args:
        form: name of the format; no other than CatBoost's counts words.
        loaded: the model.
        rows: number of rows that trained it.
        first: number of the first round that is looked at.
    """
    if form != "catboost":
        return {}
    key = f"words from {first}"
    if key not in loaded.counted:
        loaded.counted[key] = {}
        # A damaged file may score, and not be written as JSON that can be read.
        with contextlib.suppress(catboost.CatBoostError, ValueError, LookupError):
            loaded.counted[key] = _tables(loaded.model, first)
    found: dict[int, Counts] = loaded.counted[key]
    return {place: counts for place, counts in found.items() if counts.sum() == rows}


def bins_of_words(words: pl.Series) -> NDArray[np.int64]:
    """Return in which bin of `counted_words` each row's word is, shape (rows,)."""
    distinct = words.unique()
    places = words.cast(pl.Enum(distinct)).to_physical().to_numpy()
    hashed = city_hash([word.encode() for word in distinct])
    # The lower half is read with its sign.
    low = hashed.astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64)
    found: NDArray[np.int64] = _bins(low * _SPREAD)[places]
    return found


def _bins(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (keys >> np.uint64(64 - _BINS.bit_length() + 1)).astype(np.int64)


def _tables(model: Any, first: int) -> dict[int, Counts]:
    """Return what some rounds of a model keep of the words of single features."""
    if not len(model.get_cat_feature_indices()):
        return {}
    if (model.get_all_params() or {}).get("ctr_leaf_count_limit", _NO_WORD) < _NO_WORD:
        return {}  # seldom words are left out
    whole = _as_json(_some_rounds(model, first))
    places = {
        feature["feature_index"]: feature["flat_feature_index"]
        for feature in whole["features_info"].get("categorical_features", ())
    }
    found: dict[int, Counts] = {}
    for name, table in (whole.get("ctr_data") or {}).items():
        known = json.loads(name)
        parts = known["identifier"]
        if len(parts) == 1 and known["type"] not in _OF_SOME_ROWS:
            found[places[parts[0]["cat_feature_index"]]] = _by_bin(known["type"], table)
    return found


def _some_rounds(model: Any, first: int) -> Any:
    start = max(0, min(first, model.tree_count_ - _ROUNDS))
    some = model.copy()
    try:
        some.shrink(ntree_start=start, ntree_end=min(start + _ROUNDS, model.tree_count_))
    except catboost.CatBoostError:  # leaf-wise trees cannot be taken alone
        return model
    return some


def _as_json(model: Any) -> dict[str, Any]:
    """Return a model as CatBoost writes it in JSON, which it does to files alone."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        model.save_model(file.name, format="json")
        found: dict[str, Any] = json.load(file)
        return found


def _by_bin(kind: str, table: dict[str, Any]) -> Counts:
    """Return the rows of a table's words by bin: of each class a number, or a sum and a number."""
    stride = table["hash_stride"]
    words = [table["hash_map"][at : at + stride] for at in range(0, len(table["hash_map"]), stride)]
    known = [word for word in words if int(word[0]) != _NO_WORD]  # a place without a word
    rows = [word[-1] if "Mean" in kind else sum(word[1:]) for word in known]
    keys = np.array([int(word[0]) for word in known], dtype=np.uint64)
    return np.bincount(_bins(keys), rows, minlength=_BINS).astype(np.int64)

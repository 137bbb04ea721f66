"""CatBoost: the one format that privaudit's own training writes (`.cbm`)."""

import contextlib
import os
from typing import Any, NamedTuple

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.contained_child import WithBytes
from workers.lake.formats.contract import (
    MISSING_WORDS,
    InputsRefusedError,
    LoadedModel,
    ModelRefusedError,
    answering,
    timed,
    written_otherwise,
)
from workers.lake.formats.counted_rows import shared_sum
from workers.lake.manifest import Manifest

NUMBERS = pl.Float32
ERRORS = (catboost.CatBoostError,)
_TRIAL = (8, 512)
_CELLS = 1 << 18
"""Rows that are tried: at least, at most, and by their number of cells."""
_WALKED = 1 << 26
"""Bytes of a model all of which is walked through; of a larger one only what trial rows reach."""
_ADD_UP = 1e-6
_CONTEXTS = 64
"""Rows in which words are compared: an oblivious tree looks at all of its splits for each row."""
_SEEN = 8
"""Whole numbers that are looked for with ".0" behind them, as pandas writes floats."""
_TRUTH = ("False", "True", "false", "true")
_UNSEEN = "\0 a word of no table"
_FORMS = ("cpp", "json")
"""Exports that read every table: the first takes a third of the second's time, and refuses some
kinds of models."""


@answering
def describe(content: bytes) -> dict[str, Any] | WithBytes:
    """Return what a file says of itself, and the file written anew if it differs; `ModelFormat`.

    CatBoost's reader trusts lengths and offsets, so that a damaged file may be read here, and crash
    or hang the next process that reads it. What it writes of what it has read holds together.
    """
    read = _read(content)
    if read.get_text_feature_indices() or read.get_embedding_feature_indices():
        # What CatBoost writes of a model with texts has lost their tables, and crashes its reader.
        raise ModelRefusedError(
            "has features that CatBoost takes as text or embeddings, which are not asked about: "
            "audit its predictions as a score table"
        )
    whole = read._serialize_model()  # noqa: SLF001  # there is no public way to bytes
    model = _read(whole)
    if len(whole) <= _WALKED:
        # Every table is walked, and what leads out of one ends this process and no other.
        for form in _FORMS:
            with contextlib.suppress(catboost.CatBoostError):  # some models have no such form
                model.save_model(os.devnull, format=form)
                break
    names = list(model.feature_names_)
    categorical = [int(position) for position in model.get_cat_feature_indices()]
    rows = _trial(model, categorical)
    pool = catboost.Pool(rows, cat_features=categorical, feature_names=names)
    with timed(len(rows)):
        found = model.predict(pool, prediction_type="Probability", thread_count=1)
    classes = _classes(model)
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
    said = {
        "kinds": kinds,
        "names": names,
        "classes": classes,
        "class_count": len(classes),
        "rows": _rows(model),
    }
    return said if whole == content else WithBytes(said, whole)


_Guess = tuple[int, tuple[str, ...], tuple[str, ...], str]


class CatBoostRows(NamedTuple):
    """Rows as CatBoost takes them, and what of their categories' text is a guess.

    `guessed` holds for a feature's place which words the guess is, which others a model may know
    instead, and the sentence where it does.
    """

    pool: Any
    guessed: tuple[_Guess, ...]


def load(content: bytes) -> LoadedModel:
    """Return a model; categories are text to CatBoost, which needs no codes."""
    model = _read(content)
    return LoadedModel(model, classes=_classes(model))


def inputs(loaded: LoadedModel, manifest: Manifest, frame: pl.DataFrame) -> CatBoostRows:  # noqa: ARG001
    """Return a pool, whose columns are the features by name.

    CatBoost takes text, whole numbers and booleans as categories, and writes true as 1. It takes
    none that is missing: training had a word there, the empty one as manifests have it.
    """
    columns, guessed = list[pl.Series](), list[_Guess]()
    for place, feature in enumerate(manifest.features):
        column = frame[feature.name]
        if feature.kind == "categorical":
            if not (column.dtype.is_integer() or column.dtype in {pl.String, pl.Boolean}):
                raise InputsRefusedError(
                    written_otherwise(column, "text, whole numbers or booleans")
                )
            if column.null_count():
                said = f"{feature.name!r} has missing values, which training wrote as "
                guessed.append((place, ("",), MISSING_WORDS, said))
            if column.dtype == pl.Boolean:
                column = column.cast(pl.Int8)
                said = f"{feature.name!r} is stored as booleans, which training wrote as "
                guessed.append((place, ("0", "1"), _TRUTH, said))
            elif column.dtype.is_integer():
                seen = column.drop_nulls().value_counts(sort=True)[feature.name].head(_SEEN)
                words = tuple(map(str, seen))
                said = f"{feature.name!r} is stored as whole numbers, which training wrote as "
                guessed.append((place, words, tuple(f"{word}.0" for word in words), said))
            column = column.cast(pl.String).fill_null("")
        columns.append(column)
    categorical = [f.name for f in manifest.features if f.kind == "categorical"]
    return CatBoostRows(
        catboost.Pool(pl.DataFrame(columns), cat_features=categorical), tuple(guessed)
    )


def predict(loaded: LoadedModel, inputs: CatBoostRows, *, threads: int) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    for place, words, others, said in inputs.guessed:
        known = _known_words(loaded, place, (*words, *others), said)
        if instead := known.isdisjoint(words) and sorted(known):
            raise InputsRefusedError(f"{said}{' or '.join(map(repr, instead))}: write it so")
    found = loaded.model.predict(
        inputs.pool,
        prediction_type="Probability",
        thread_count=threads,
    )
    return np.asarray(found, dtype=np.float64)


def _known_words(loaded: LoadedModel, place: int, words: tuple[str, ...], key: str) -> set[str]:
    """Return of which words as a category a model says something else than of one never seen.

    It is asked once for each `key`: later batches hold other whole numbers.
    """
    if key not in loaded.known:
        model = loaded.model
        categorical = [int(position) for position in model.get_cat_feature_indices()]
        rows = _trial(model, categorical)[:_CONTEXTS]
        asked = np.tile(rows, (len(words) + 1, 1))
        asked[:, place] = np.repeat(np.array([*words, _UNSEEN], dtype=np.object_), len(rows))
        pool = catboost.Pool(asked, cat_features=categorical, feature_names=model.feature_names_)
        said = np.asarray(model.predict(pool, prediction_type="RawFormulaVal", thread_count=1))
        *told, unseen = said.reshape(len(words) + 1, len(rows), -1)
        loaded.known[key] = {
            word for word, one in zip(words, told, strict=True) if (one != unseen).any()
        }
    found: set[str] = loaded.known[key]
    return found


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


def _rows(model: Any) -> tuple[int, bool] | None:
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
    return None if count is None else (count, True)


def _classes(model: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in model.classes_)


def _read(content: bytes) -> Any:
    model = catboost.CatBoost()
    model.load_model(blob=content, format="cbm")
    return model

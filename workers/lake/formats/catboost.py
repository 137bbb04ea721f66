"""CatBoost: the one format that privaudit's own training writes (`.cbm`)."""

from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.lake.formats.contract import LoadedModel, ModelRefusedError, answering
from workers.lake.manifest import Manifest

NAME = "CatBoost"
NUMBERS = pl.Float32
MISSING = ""
ERRORS = (catboost.CatBoostError,)


@answering
def describe(content: bytes) -> dict[str, Any]:
    """Return what a file says of itself; see `ModelFormat`."""
    model = _read(content)
    names = list(model.feature_names_)
    categorical = [int(position) for position in model.get_cat_feature_indices()]
    row = ["" if position in categorical else 0.0 for position in range(len(names))]
    pool = catboost.Pool([row], cat_features=categorical, feature_names=names)
    model.predict(pool, prediction_type="Probability", thread_count=1)
    classes = _classes(model)
    if not classes:
        # It would give numbers between 0 and 1 all the same.
        loss = (model.get_all_params() or {}).get("loss_function", "numbers")
        raise ModelRefusedError(
            f"is a regressor (it was trained for {loss}), which gives no probabilities of classes: "
            'train a classifier, or audit its predictions as a score table (scale = "number")'
        )
    return {
        "kinds": [
            "categorical" if place in categorical else "numeric" for place in range(len(names))
        ],
        "names": names,
        "classes": classes,
        "class_count": len(classes),
    }


def load(content: bytes) -> LoadedModel:
    """Return a model; categories are text to CatBoost, which needs no codes."""
    model = _read(content)
    return LoadedModel(model, classes=_classes(model))


def inputs(loaded: LoadedModel, manifest: Manifest, frame: pl.DataFrame) -> Any:  # noqa: ARG001
    """Return a pool, whose columns are the features by name."""
    features = frame.select(feature.name for feature in manifest.features)
    categorical = [f.name for f in manifest.features if f.kind == "categorical"]
    return catboost.Pool(features, cat_features=categorical)


def predict(loaded: LoadedModel, inputs: Any, *, threads: int) -> NDArray[np.float64]:
    """Return probabilities, shape (records, classes)."""
    found = loaded.model.predict(inputs, prediction_type="Probability", thread_count=threads)
    return np.asarray(found, dtype=np.float64)


def _classes(model: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in model.classes_)


def _read(content: bytes) -> Any:
    model = catboost.CatBoost()
    model.load_model(blob=content, format="cbm")
    return model

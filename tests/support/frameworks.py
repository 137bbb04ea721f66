"""Models of other frameworks than CatBoost, trained on rows with categories and missing values."""

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import xgboost
from numpy.typing import NDArray
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from tests.support.lake import BINARY, FEATURES
from workers.lake.checkpoints import Checkpoint, as_inputs, predict, write_checkpoint
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn

CITIES = ["AMS", "BER", "CDG"]


def probabilities(checkpoint: Checkpoint, features: pl.DataFrame) -> NDArray[np.float64]:
    """Return what a checkpoint says of rows."""
    return predict(checkpoint, as_inputs(checkpoint, features))


@dataclass(frozen=True)
class Trained:
    """A model file, and what its framework itself says of the rows that it is asked."""

    format: str
    content: bytes
    says: Callable[[pl.DataFrame], NDArray[np.float64]]


def rows_with_gaps(rows: int, *, seed: int, classes: int = 2, offset: float = 0.0) -> pl.DataFrame:
    """Return features of which some are missing, and a label; hours are counted from `offset`."""
    random = np.random.default_rng(seed)
    delay = random.normal(size=rows)
    hour = random.integers(0, 24, rows).astype(float)
    city = random.choice(CITIES, rows)
    chance = 1.5 * np.nan_to_num(delay) + (city == "BER") + 0.05 * hour
    cuts = np.quantile(chance, np.arange(1, classes) / classes)
    label = np.searchsorted(cuts, chance + random.normal(size=rows))
    return pl.DataFrame(
        {
            "delay": [None if random.random() < 0.1 else each for each in delay.tolist()],
            "hour": (offset + hour).tolist(),
            "city": [None if random.random() < 0.1 else each for each in city.tolist()],
            "late": label,
        },
        schema={"delay": pl.Float64, "hour": pl.Float64, "city": pl.String, "late": pl.Int64},
    )


def as_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Return features as people train on them: categories are categorical."""
    found = pd.DataFrame({name: frame[name].to_list() for name in ("delay", "hour", "city")})
    found["city"] = pd.Categorical(found["city"], categories=CITIES)
    return found.astype({"delay": float, "hour": float})


def train_xgboost(
    frame: pl.DataFrame, classes: int = 2, *, kind: str = "ubj", **more: Any
) -> Trained:
    """Train on a pandas table; `kind` is `ubj` or `json`."""
    objective = {"objective": "binary:logistic"} if classes == 2 else {
        "objective": "multi:softprob", "num_class": classes}  # fmt: skip
    data = xgboost.DMatrix(
        as_pandas(frame), label=frame["late"].to_numpy(), enable_categorical=True
    )
    booster = xgboost.train({"max_depth": 4, "nthread": 1} | objective | more, data, 8)

    def says(asked: pl.DataFrame) -> NDArray[np.float64]:
        return _both(booster.predict(xgboost.DMatrix(as_pandas(asked), enable_categorical=True)))

    return Trained("xgboost", bytes(booster.save_raw(kind)), says)


def train_lightgbm(frame: pl.DataFrame, classes: int = 2, **more: Any) -> Trained:
    """Train on a pandas table."""
    objective = {"objective": "binary"} if classes == 2 else {
        "objective": "multiclass", "num_class": classes}  # fmt: skip
    quiet = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "min_data_per_group": 5}
    data = lightgbm.Dataset(as_pandas(frame), label=frame["late"].to_numpy())
    booster = lightgbm.train(quiet | objective | more, data, 8)

    def says(asked: pl.DataFrame) -> NDArray[np.float64]:
        return _both(np.asarray(booster.predict(as_pandas(asked))))

    return Trained("lightgbm", booster.model_to_string().encode(), says)


def train_onnx(frame: pl.DataFrame, classes: int = 2) -> Trained:  # noqa: ARG001
    """Train a pipeline of scikit-learn, and convert it; it finds out how many classes there are."""
    pipeline = make_pipeline(
        make_column_transformer(
            (SimpleImputer(), ["delay", "hour"]), (OneHotEncoder(handle_unknown="ignore"), ["city"])
        ),
        LogisticRegression(max_iter=1000),
    ).fit(_with_text(frame), frame["late"].to_numpy())
    one = [None, 1]
    kinds = [("delay", FloatTensorType(one)), ("hour", FloatTensorType(one)),
             ("city", StringTensorType(one))]  # fmt: skip
    model = convert_sklearn(
        pipeline, initial_types=kinds, options={id(pipeline): {"zipmap": False}}
    )

    def says(asked: pl.DataFrame) -> NDArray[np.float64]:
        return np.asarray(pipeline.predict_proba(_with_text(asked)))

    return Trained("onnx", model.SerializeToString(), says)


def put_trained(
    lake: Lake,
    day: dt.date,
    trained: Trained,
    *,
    label: LabelColumn = BINARY,
    features: Iterable[Feature] = FEATURES,
    model: str = "good",
    privacy: dict[str, Any] | None = None,
) -> None:
    """Write a checkpoint of any framework, of labels in `flights`."""
    manifest = {
        "model": model,
        "day": day,
        "dataset": "flights",
        "label": label.model_dump(),
        "features": [feature.model_dump() for feature in features],
        "trained_on": {"first": day, "last": day, "split": "train"},
        "privacy": privacy,
    }
    write_checkpoint(lake, manifest, trained.content, format=trained.format)


def _with_text(frame: pl.DataFrame) -> pd.DataFrame:
    """Return features with text that has no gaps, which is all that ONNX knows."""
    found = as_pandas(frame)
    found["city"] = found["city"].astype(object).where(found["city"].notna(), "")
    return found


def _both(found: NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(found, dtype=np.float64)
    return values if values.ndim == 2 else np.column_stack([1.0 - values, values])

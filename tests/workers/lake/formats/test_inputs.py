"""A category is what its framework wrote: own probabilities from what pandas wrote, or a refusal.

Each framework is trained on a pandas column, which pandas itself then writes to Parquet. What the
audit makes of that file is compared with the framework's own answers about the frame.
"""

import datetime as dt
import decimal
import pathlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import xgboost
from numpy.typing import NDArray
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from tests.support.frameworks import probabilities
from tests.support.lake import manifest_for
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.checkpoints import Checkpoint
from workers.lake.manifest import Feature, Manifest
from workers.lake.model_sandbox import ModelRefusedError, describe_model

ROWS = 240
Says = Callable[[pd.DataFrame], Any]
NEW_DAY = dt.datetime(2026, 4, 1)  # noqa: DTZ001
D = decimal.Decimal
COLUMNS: dict[str, tuple[list[Any], str]] = {
    "bool": ([True, False, False], "bool"),
    "bool with gaps": ([True, False, None], "boolean"),
    "int8": ([-7, 3, 100], "int8"),
    "int16": ([-700, 3, 1000], "int16"),
    "int32": ([-70_000, 3, 1_000_000], "int32"),
    "int64": ([10, 20, 30], "int64"),
    "int64, large": ([2**60, 2**60 + 1, 3], "int64"),
    "uint8": ([0, 200, 255], "uint8"),
    "uint64": ([1, 2, 2**64 - 1], "uint64"),
    "whole with gaps": ([10, 20, None], "Int64"),
    "float": ([1.0, 2.0, 3.0], "float64"),
    "float with gaps": ([10.0, 20.0, None], "float64"),
    "fractions": ([0.5, 1.25, 1.1], "float64"),
    "float32": ([0.5, 1.25, 1.1], "float32"),
    "decimal": ([D("1.50"), D("2.00"), D("3.25")], "object"),
    "date": ([dt.date(2026, 3, day) for day in (1, 2, 3)], "object"),
    "time": ([dt.datetime(2026, 3, day) for day in (1, 2, 3)], "datetime64[us]"),  # noqa: DTZ001
    "words": (["red", "dark green", "blue"], "str"),
    "accents": (["é", "naïve café", "ü"], "str"),
    "accents, cut to a letter": (["ab", "éa", "zz"], "str"),
    "words with gaps": (["red", "dark green", None], "object"),
    "words like numbers": (["01", "1", "1.0"], "str"),
    "words like truth": (["True", "true", "1"], "str"),
    "the words nan and None": (["nan", "None", "red"], "str"),
}


def column(name: str) -> pd.Series:
    values, kind = COLUMNS[name]
    return pd.Series([values[place % len(values)] for place in range(ROWS)], dtype=kind)


def frame_of(values: pd.Series) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a frame whose label depends upon the category, so that a wrong one shows."""
    random = np.random.default_rng(0)
    number = random.normal(size=ROWS).astype(np.float32).astype(float)
    part = np.arange(ROWS) % 3
    label = (0.4 * number + np.array([-2.0, 2.0, 0.2])[part] + random.normal(size=ROWS) > 0) * 1
    return pd.DataFrame({"a": number, "c": values}), label


def by_catboost(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
    quiet: dict[str, Any] = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(cat_features=["c"], iterations=8, **quiet)
    return model.fit(frame, label)._serialize_model(), model.predict_proba


def by_lightgbm(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
    quiet: dict[str, Any] = {"verbose": -1, "n_jobs": 1, "min_child_samples": 5}
    model = lightgbm.LGBMClassifier(n_estimators=8, min_data_per_group=5, **quiet)
    model.fit(frame.astype({"c": "category"}), label)
    content = model.booster_.model_to_string().encode()
    return content, lambda asked: model.predict_proba(asked.astype({"c": "category"}))


def by_lightgbm_codes(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
    quiet: dict[str, Any] = {"objective": "binary", "verbosity": -1, "num_threads": 1}
    data = lightgbm.Dataset(frame, label=label, categorical_feature=["c"])
    model = lightgbm.train(quiet | {"min_data_per_group": 5}, data, 8)
    return model.model_to_string().encode(), lambda asked: both(model.predict(asked))


def by_xgboost(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
    model = xgboost.XGBClassifier(n_estimators=8, n_jobs=1, enable_categorical=True)
    model.fit(frame.astype({"c": "category"}), label)
    content = bytes(model.get_booster().save_raw("ubj"))
    return content, lambda asked: model.predict_proba(asked.astype({"c": "category"}))


def by_xgboost_of_polars(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
    def data(asked: pd.DataFrame, label: Any = None) -> xgboost.DMatrix:
        words = pl.Series(asked["c"].tolist(), dtype=pl.Categorical)
        table = pl.DataFrame({"a": asked["a"].to_numpy(), "c": words})
        return xgboost.DMatrix(table, label=label, enable_categorical=True)

    quiet: dict[str, Any] = {"objective": "binary:logistic", "nthread": 1}
    booster = xgboost.train(quiet, data(frame, label), 8)
    return bytes(booster.save_raw("ubj")), lambda asked: both(booster.predict(data(asked)))


def by_onnx(
    kind: Any, as_trained: Callable[[pd.Series], Any], frame: pd.DataFrame, label: np.ndarray
) -> tuple[bytes, Says]:
    def table(asked: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"c": as_trained(asked["c"]), "a": asked["a"]})

    encoded = (OneHotEncoder(handle_unknown="ignore"), ["c"])
    pipeline = make_pipeline(
        make_column_transformer(encoded, remainder="passthrough"),
        DecisionTreeClassifier(max_depth=4, random_state=0),
    ).fit(table(frame), label)
    kinds = [("c", kind([None, 1])), ("a", FloatTensorType([None, 1]))]
    model = convert_sklearn(
        pipeline, initial_types=kinds, options={id(pipeline): {"zipmap": False}}
    )
    return model.SerializeToString(), lambda asked: pipeline.predict_proba(table(asked))


def both(found: Any) -> NDArray[np.float64]:
    second = np.asarray(found, dtype=np.float64)
    return np.column_stack([1.0 - second, second])


def as_text(values: pd.Series) -> pd.Series:
    return values.astype(object).map(str)


def of_text(train: Callable[..., tuple[bytes, Says]]) -> Callable[..., tuple[bytes, Says]]:
    """Let pandas write the column as text before training, and the table keep what it was."""

    def trained(frame: pd.DataFrame, label: np.ndarray) -> tuple[bytes, Says]:
        content, says = train(frame.assign(c=as_text(frame["c"])), label)
        return content, lambda asked: says(asked.assign(c=as_text(asked["c"])))

    return trained


TRAINERS: dict[str, Callable[[pd.DataFrame, np.ndarray], tuple[bytes, Says]]] = {
    "catboost": by_catboost,
    "catboost of text": of_text(by_catboost),
    "lightgbm": by_lightgbm,
    "lightgbm of text": of_text(by_lightgbm),
    "lightgbm of codes": by_lightgbm_codes,
    "xgboost": by_xgboost,
    "xgboost of text": of_text(by_xgboost),
    "xgboost of polars": by_xgboost_of_polars,
    "onnx of text": partial(by_onnx, StringTensorType, as_text),
    "onnx of whole numbers": partial(by_onnx, Int64TensorType, lambda one: one.astype("int64")),
    "onnx of floats": partial(by_onnx, FloatTensorType, lambda one: one.astype("float32")),
}
NEVER_TEXT = {"date", "time", "decimal"}
GAPS = {"bool with gaps", "whole with gaps", "float with gaps", "words with gaps"}
FRACTIONS = {"fractions", "float32"}
CUT_OFF = {"accents", "accents, cut to a letter"}
REFUSED: dict[str, set[str]] = {
    "catboost of text": NEVER_TEXT | GAPS | FRACTIONS | {"bool", "float"},
    "lightgbm of text": NEVER_TEXT | GAPS,
    "lightgbm of codes": FRACTIONS,
    "xgboost": CUT_OFF,
    "xgboost of text": NEVER_TEXT | GAPS | CUT_OFF,
    "onnx of text": NEVER_TEXT | GAPS | FRACTIONS,
    "onnx of whole numbers": FRACTIONS | {"decimal", "time"},
    "onnx of floats": {"words like numbers"},
}
"""Columns of which a file does not say as what training had them; all others are answered alike."""
TRAINED = {"catboost": 14, "lightgbm": 21, "lightgbm of codes": 14, "xgboost": 13,
           "xgboost of polars": 7, "onnx of whole numbers": 13, "onnx of floats": 10}  # fmt: skip
"""How many of the columns a framework trains on."""
ALSO_ASKED = {"xgboost of text": 0, "xgboost of polars": 1}
"""How many changed columns are answered, of those that a framework answers itself."""


def manifest_of(form: str) -> Manifest:
    number, word = Feature(name="a", kind="numeric"), Feature(name="c", kind="categorical")
    features = (word, number) if form == "onnx" else (number, word)
    return manifest_for(format=form, features=features)


def as_audited(form: str, content: bytes, frame: pd.DataFrame, folder: pathlib.Path) -> np.ndarray:
    """Return an audit's probabilities of what pandas writes to Parquet."""
    frame.to_parquet(folder / "rows.parquet")
    batch = Batch(pq.read_table(folder / "rows.parquet"), "rows.parquet", ("rows.parquet", 0, 0))
    checkpoint = Checkpoint(manifest_of(form), "", content, describe_model(content, form=form))
    return probabilities(checkpoint, batch.features(checkpoint.manifest))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_column_gives_the_frameworks_own_probabilities_or_a_refusal(tmp_path, trainer):
    """23 columns; each once as it was trained on, and once with missing and with new values."""
    form, trained, refused, asked_otherwise = trainer.split(maxsplit=1)[0], 0, set(), 0
    for name in COLUMNS:
        frame, label = frame_of(column(name))
        try:
            content, says = TRAINERS[trainer](frame, label)
        except Exception:  # noqa: BLE001, S112  # no file has what a framework does not train on
            continue
        trained += 1
        for asked in (frame, *changed(frame, trainer)):
            try:
                expected = says(asked)
            except Exception:  # noqa: BLE001, S112  # nor does it say what it would answer
                continue
            try:
                found = as_audited(form, content, asked, tmp_path)
            except (NotEvaluableError, ModelRefusedError):
                refused |= {name} if asked is frame else set()
                continue
            np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0, err_msg=name)
            asked_otherwise += asked is not frame
    assert refused == REFUSED.get(trainer, set())
    assert trained == TRAINED.get(trainer, len(COLUMNS))
    assert asked_otherwise >= ALSO_ASKED.get(trainer, 3)


@pytest.mark.parametrize(
    ("values", "wrote", "said"),
    [
        ([10, 20, 30], lambda one: f"{one}.0", "whole numbers, which training wrote as '10.0' or"),
        ([True, False, True], str, "booleans, which training wrote as 'False'"),
        (
            ["a", None, "b"],
            lambda one: "unknown" if pd.isna(one) else one,
            "missing values, which training wrote as 'unknown'",
        ),
    ],
)
def test_catboosts_words_are_looked_for_in_the_model(tmp_path, values, wrote, said):
    stored = pd.Series([values[place % 3] for place in range(ROWS)])
    frame, label = frame_of(stored)
    content, says = by_catboost(frame.assign(c=stored.map(wrote).astype("str")), label)
    with pytest.raises(NotEvaluableError, match=said):
        as_audited("catboost", content, frame, tmp_path)
    told = frame.assign(c=stored.map(wrote).astype("str"))
    found = as_audited("catboost", content, told, tmp_path)
    np.testing.assert_allclose(found, says(told), atol=1e-6, rtol=0)


def changed(frame: pd.DataFrame, trainer: str) -> Iterator[pd.DataFrame]:
    """Yield the frame with values that training did not see, and with missing ones.

    XGBoost has no answer about a category that it has not seen, nor of a gap that became a word.
    """
    kind, values = frame["c"].dtype, frame["c"].to_numpy(dtype=object, na_value=None).copy()
    new: dict[str, Any] = {"b": True, "i": 77, "u": 77, "f": 77.0, "M": NEW_DAY}
    if not trainer.startswith("xgboost"):
        values[::5] = "new" if isinstance(values[0], str) else new.get(kind.kind, values[1])
        yield frame.assign(c=pd.Series(values, dtype=kind))
    if trainer != "xgboost of text":
        values[::5] = None
        gaps = {"b": "boolean", "i": "Int64", "u": "UInt64"}.get(kind.kind, kind)
        yield frame.assign(c=pd.Series(values, dtype=gaps))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("trainer", "name"),
    [
        ("lightgbm", "whole with gaps"),
        ("lightgbm", "words"),
        ("lightgbm of codes", "float with gaps"),
        ("catboost", "words"),
    ],
)
def test_a_column_without_a_kind_is_of_missing_values(tmp_path, trainer, name):
    """Parquet has a kind of its own for a column in which every value is missing."""
    frame, label = frame_of(column(name))
    content, says = TRAINERS[trainer](frame, label)
    nothing = pd.Series([None] * ROWS)
    found = as_audited(trainer.split(maxsplit=1)[0], content, frame.assign(c=nothing), tmp_path)
    missing = {"catboost": "", "lightgbm": pd.Series(nothing, dtype="Int64")}
    missing["lightgbm of codes"] = np.nan
    expected = says(frame.assign(c=missing.get(trainer, nothing)))
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)

"""Model files of each framework: what they say of themselves, and what they predict.

One module for each framework, whose `answer` runs in a child that has the file and nothing else;
its library is imported there alone. None of these formats can hold code. Those that can (pickle,
joblib, skops, TorchScript, MLflow's pyfunc) are never read.
"""

import importlib.util

import polars as pl

from privcore.exceptions import TerminalError

FILES = {
    "catboost": "model.cbm",
    "xgboost": "model.ubj",
    "lightgbm": "model.txt",
    "onnx": "model.onnx",
}
"""The formats, and what their files are called where privaudit writes them."""

NAMES = {"catboost": "CatBoost", "xgboost": "XGBoost", "lightgbm": "LightGBM", "onnx": "ONNX"}
"""The formats' frameworks in sentences, which need no library."""

ENDINGS = {".cbm": "catboost", ".cb": "catboost", ".ubj": "xgboost", ".json": "xgboost",
           ".xgb": "xgboost", ".txt": "lightgbm", ".lgb": "lightgbm", ".onnx": "onnx"}  # fmt: skip
"""The formats by how frameworks' own files are called."""

NUMBERS: dict[str, type[pl.DataType]] = {
    "catboost": pl.Float32,
    "xgboost": pl.Float32,
    "lightgbm": pl.Float64,
    "onnx": pl.Float64,
}
"""Types that numeric features are read as: 32 bits where the framework itself keeps no more."""

_LIBRARIES = {
    "catboost": ("catboost",),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
    "onnx": ("onnx", "onnxruntime"),
}


def check_installed(name: str) -> None:
    """Raise `TerminalError` unless a format's library is installed."""
    if any(importlib.util.find_spec(library) is None for library in _LIBRARIES[name]):
        raise TerminalError(
            f"Models of the format {name} need its library: install privaudit[{name}] on every "
            "node."
        )

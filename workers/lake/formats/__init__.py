"""Model files of each framework: what they say of themselves, and what they predict.

One module for each framework, with the functions of `ModelFormat`; its library is imported where a
model asks for it. None of these formats can hold code. Those that can (pickle, joblib, skops,
TorchScript, MLflow's pyfunc) are never read.
"""

import importlib.util
from typing import cast

from privcore.exceptions import TerminalError
from workers.lake.formats.contract import ModelFormat

FILES = {
    "catboost": "model.cbm",
    "xgboost": "model.ubj",
    "lightgbm": "model.txt",
    "onnx": "model.onnx",
}
"""The formats, and what their files are called where privaudit writes them."""

NAMES = {"catboost": "CatBoost", "xgboost": "XGBoost", "lightgbm": "LightGBM", "onnx": "ONNX"}
"""The formats' frameworks in sentences, which need no library."""

ENDINGS = {".cbm": "catboost", ".ubj": "xgboost", ".json": "xgboost", ".txt": "lightgbm",
           ".lgb": "lightgbm", ".onnx": "onnx"}  # fmt: skip
"""The formats by how frameworks' own files are called."""

_LIBRARIES = {
    "catboost": ("catboost",),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
    "onnx": ("onnx", "onnxruntime"),
}


def format_named(name: str) -> ModelFormat:
    """Return the format that a manifest names.

    Raises:
        TerminalError: its library is not installed.
    """
    check_installed(name)
    # An extra each: who audits LightGBM needs no XGBoost.
    if name == "xgboost":
        from workers.lake.formats import xgboost as found  # noqa: PLC0415
    elif name == "lightgbm":
        from workers.lake.formats import lightgbm as found  # type: ignore[no-redef]  # noqa: PLC0415
    elif name == "onnx":
        from workers.lake.formats import onnx as found  # type: ignore[no-redef]  # noqa: PLC0415
    else:
        from workers.lake.formats import catboost as found  # type: ignore[no-redef]  # noqa: PLC0415
    return cast("ModelFormat", found)


def check_installed(name: str) -> None:
    """Raise `TerminalError` unless a format's library is installed."""
    if any(importlib.util.find_spec(library) is None for library in _LIBRARIES[name]):
        raise TerminalError(
            f"Models of the format {name} need its library: install privaudit[{name}] on every "
            "node."
        )

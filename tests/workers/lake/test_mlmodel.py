"""MLmodel files that somebody wrote to be read for hours, or to be more than text."""

import time

import pytest

from workers.lake import limits
from workers.lake.mlmodel import Flavor, UnreadableMLmodelError, read_flavors

BOMBS = {
    "deep": "flavors: " + "[" * 2_000_000,
    "sexagesimal": f"flavors: {'1:' * 1_000_000}1\n",
    "keys": "flavors: {" + ", ".join(f"? [{n}] : x" for n in range(1000)) + "}\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_mlmodel_that_unpacks_is_not_unpacked(bomb: str) -> None:
    begun = time.monotonic()
    with pytest.raises(UnreadableMLmodelError):
        read_flavors(BOMBS[bomb].encode())
    assert time.monotonic() - begun < limits.MLMODEL_SECONDS + 10.0


def test_flavors_are_text_and_nothing_else() -> None:
    text = b"""
    flavors:
      xgboost: {data: model.ubj, model_class: xgboost.core.Booster}
      python_function: {loader_module: mlflow.xgboost}
      2026-03-02: {data: 2026-03-02}
      onnx: {data: [model.onnx]}
      lightgbm: model.lgb
    """
    assert read_flavors(text) == {
        "xgboost": Flavor("model.ubj"),
        "python_function": Flavor(None, "mlflow.xgboost"),
        "2026-03-02": Flavor("2026-03-02"),
        "onnx": Flavor(None),
        "lightgbm": Flavor(None),
    }


@pytest.mark.parametrize("text", [b"", b"flavors: 3", b"[]", b"\xff", b"{", b"flavors: !!map 3"])
def test_what_lists_no_flavors_is_refused(text: bytes) -> None:
    with pytest.raises(UnreadableMLmodelError):
        read_flavors(text)

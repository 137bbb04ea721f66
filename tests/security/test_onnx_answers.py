"""ONNX files whose answers are not those of the model that training made: refused."""

import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest
from onnx import TensorProto, helper

from tests.support.audits import recorded
from tests.support.frameworks import Trained, put_trained
from tests.support.lake import DAY, EVE, declared, label_rows, manifest_for, put_labels
from tests.support.onnx_files import onnx_file
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.inputs import InputsRefusedError, ModelInputs, inputs_of
from workers.lake.layout import Lake
from workers.lake.manifest import Feature
from workers.lake.model_sandbox import describe_model
from workers.warehouse.schema import AuditRow

node = helper.make_node


FEATURES = tuple(Feature(name=each, kind="numeric") for each in ("delay", "hour", "wind"))


APART = (node("Identity", ["F"], ["V"]),)


def answers(*nodes: Any, name: str = "X", kind: int = TensorProto.FLOAT) -> bytes:
    """Return a file whose nodes make `V` of `F`, the numbers of an input of a name and a type."""
    first = node("Cast", [name], ["F"], to=TensorProto.FLOAT)
    last = [node("MatMul", ["V", "W"], ["Z"]), node("Softmax", ["Z"], ["Y"])]
    given = {name: (kind, ["rows", 3])}
    return onnx_file([first, *nodes, *last], given=given, W=np.eye(3, 2, dtype=np.float32))


def audited(folder: pathlib.Path, before: bytes, today: bytes) -> AuditRow:
    """Return the audit of an ONNX file beside another one."""
    lake = Lake(str(folder))
    for seed, (day, content) in enumerate(((EVE, before), (DAY, today))):
        frame = label_rows(600, seed=seed)
        put_labels(lake, day, frame.with_columns(wind=pl.col("delay") * 0.5))
        trained = Trained("onnx", content, lambda rows: rows.to_numpy())
        put_trained(lake, day, trained, features=FEATURES, privacy=declared(4.0))
    return recorded(lake).audit


@pytest.mark.parametrize(("hour", "refused"), [([1.0, 2.0], False), ([1.5, 2.0], True)])
def test_numbers_that_a_model_cuts_off_are_refused(hour, refused):
    """Its whole numbers hid what it remembers of fractions: 4.25 became 0.18."""
    described = describe_model(answers(*APART, kind=TensorProto.INT64), form="onnx")
    given = pl.DataFrame({"delay": [1.0, 2.0], "hour": hour, "wind": [0.0, 0.0]})
    said = manifest_for(format="onnx", features=FEATURES)
    if refused:
        with pytest.raises(InputsRefusedError, match="cuts off"):
            inputs_of(described, said, given)
    else:
        assert set(inputs_of(described, said, given).frame.dtypes) == {pl.Int64}


@pytest.mark.parametrize(("below", "kept"), [(-3.6e-7, True), (-1e-3, False)])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_forests_share_of_a_little_less_than_nothing_is_none(columns, below, kept):
    """Forests of 10 or 30 trees, as skl2onnx writes them, were not evaluable."""
    both = np.array([[below, 1.0 - below, 0.0], [0.25, 0.75, 0.0]])[:, 2 - columns :]
    content = onnx_file([node("Gather", ["X", "part"], ["Y"], axis=1)], part=np.arange(columns))
    rows = pl.DataFrame(dict(zip("abc", np.resize(both.T, (3, 2)), strict=True)))
    onnx_format.answer(content, verb="load", number=0)
    given = ModelInputs(rows.cast(pl.Float32), matrix=True)
    said = onnx_format.answer(b"", verb="score", number=0, file=given.file())
    found = np.frombuffer(said.content).reshape(2, 2)
    assert bool(found.min() >= 0.0 and found.max() <= 1.0) is kept
    np.testing.assert_array_equal(found[1], [0.25, 0.75])


@pytest.mark.parametrize(
    "before",
    [answers(*APART, name="numbers"), answers(*APART, kind=TensorProto.DOUBLE)],
    ids=["name", "type"],
)
def test_models_whose_inputs_are_called_otherwise_are_compared(before, tmp_path):
    """The earlier model was given the target's inputs: a converter's new version ended audits."""
    row = audited(tmp_path, before, answers(*APART))
    assert row.status == "evaluated", row.reason

"""A crafted model file reads nothing beside it, stays within memory and ends no other audit."""

import pathlib
import struct

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from onnx import helper

from privcore.exceptions import InvalidInputError
from tests.support.lake import DAY, EVE, small_lake
from tests.support.onnx_files import ANSWER, ONES, SCORES, onnx_file
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake import model_sandbox
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.inputs import ModelInputs
from workers.lake.model_sandbox import ModelRefusedError, describe_model, score_rows
from workers.memorization.language_models import ModelFile, NgramCounts
from workers.plan import Plan


@pytest.mark.parametrize(
    "place", ["weights.bin", "../eve/model.onnx", "/etc/passwd", "model.onnx", "a\x1b[2J", ""]
)
def test_onnx_files_beside_a_model_are_never_opened(place):
    outside = onnx.TensorProto(name="W", data_type=1, dims=list(ONES.shape), data_location=1)
    outside.external_data.add(key="location", value=place)
    outside.external_data.add(key="length", value=str(1 << 62))
    with pytest.raises(ModelRefusedError) as refused:
        describe_model(onnx_file([SCORES, ANSWER], weights=[outside]), form="onnx")
    assert "files beside it" in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_an_ngram_model_is_read_and_asked_in_a_contained_process(monkeypatch):
    """600 MB of nested lists took 16 GB of the command."""
    file = ModelFile("m.json", NgramCounts.of([np.array([97, 98])], 2).to_json())

    def never(_: bytes) -> NgramCounts:
        raise AssertionError("it was read here")

    monkeypatch.setattr(NgramCounts, "from_json", never)
    with pytest.raises(InvalidInputError, match="it is a file of the format"):
        ModelFile("m.json", b'{"counts": [[],[]]}').check()
    file.check()
    assert file.log_probabilities(np.array([97, 98, 256])).shape == (3, 257)


def protobuf_varint(number: int) -> bytes:
    found = bytearray()
    while True:
        low, number = number & 127, number >> 7
        found.append(low | (128 if number else 0))
        if not number:
            return bytes(found)


def of_two_formats(shown: bytes, hidden: bytes, folder: pathlib.Path) -> bytes:
    """Return a file that is `shown` as ONNX's, and `hidden` as one of onnxruntime's own format.

    The first bytes are the place of the table in that format, and two fields of ONNX's.
    """
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "hidden.ort")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(hidden, options, providers=["CPUExecutionProvider"])
    table = (folder / "hidden.ort").read_bytes()
    (root,) = struct.unpack("<I", table[:4])
    for second in range(1, 0x7F):
        for first in (0x08, 0x28):
            place = first | second << 8 | 0x82 << 16 | 1 << 24
            begin = (
                struct.pack("<I", place)
                + b"ORTM"
                + b"a" * 76
                + shown
                + protobuf_varint(100 << 3 | 2)
            )
            rest = place - root - len(begin)
            length = len(protobuf_varint(rest + len(table)))
            if (place - root) % 8 == 0 and rest > length:
                padding = rest - length
                return begin + protobuf_varint(padding + len(table)) + b"\0" * padding + table
    return None


def test_a_file_of_two_formats_is_run_as_what_was_checked(tmp_path):
    """The checks saw one graph, and onnxruntime ran another: by chance, with loops, or any."""
    answer = helper.make_node("Softmax", ["T"], ["Y"], axis=1)
    plain = [helper.make_node("MatMul", ["X", "W"], ["T"]), answer]
    chance = [
        helper.make_node("MatMul", ["X", "W"], ["S"]),
        helper.make_node("RandomUniformLike", ["S"], ["R"], low=-1.0, high=1.0),
        helper.make_node("Add", ["S", "R"], ["T"]),
        answer,
    ]
    shown, hidden = (onnx_file(nodes, W=ONES) for nodes in (plain, chance))
    rows = {"X": np.ones((2, 3), np.float32)}
    wanted = onnx_format.load(shown).model.run(["Y"], rows)[0]
    found = onnx_format.load(of_two_formats(shown, hidden, tmp_path)).model
    assert all(np.array_equal(found.run(["Y"], rows)[0], wanted) for _ in range(3))


def by_value(most: int) -> bytes:
    """Return a model that reserves `most` floats where a feature is over 20."""
    nodes = [
        helper.make_node("ReduceMax", ["X"], ["highest"], keepdims=0),
        helper.make_node("Greater", ["highest", "limit"], ["high"]),
        helper.make_node("Where", ["high", "most", "one"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0),
        SCORES,
        helper.make_node("Add", ["S", "zero"], ["T"]),
        ANSWER,
    ]
    return onnx_file(nodes, W=ONES, limit=np.float32(20), most=[most], one=[1])


def test_an_onnx_model_whose_memory_a_value_decides_is_bounded():
    """Trial rows need little memory; one row of the day asks for 40 GB."""
    content = by_value(10_000_000_000)
    assert describe_model(content, form="onnx").class_count == 2
    model = onnx_format.load(content).model
    rows = np.full((4, 3), 1.0, np.float32)
    assert model.run(["Y"], {"X": rows})[0].shape == (4, 2)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="Available memory"):
        model.run(["Y"], {"X": rows + 20.0})


def test_weights_beside_the_file_are_found_in_a_branch_without_nodes_too():
    outside = onnx.TensorProto(name="E", data_type=1, dims=[2], data_location=1)
    outside.external_data.add(key="location", value="privaudit.toml")
    said = helper.make_tensor_value_info("E", 1, [2])
    inside = helper.make_tensor("E", 1, [2], [0.0, 0.0])
    branches = [helper.make_graph([], name, [], [said], [outside]) for name in ("a", "b")]
    branches[1].initializer[0].CopyFrom(inside)
    chosen = helper.make_node("If", ["no"], ["Z"], then_branch=branches[0], else_branch=branches[1])
    no = helper.make_tensor("no", onnx.TensorProto.BOOL, [], [False])
    nodes = [SCORES, chosen, helper.make_node("Add", ["S", "Z"], ["T"]), ANSWER]
    with pytest.raises(ModelRefusedError, match="weights in files"):
        describe_model(onnx_file(nodes, weights=[no], W=ONES), form="onnx")


def words_by_value(doublings: int) -> bytes:
    """Return a model that doubles a word where a feature is over 20."""
    word = helper.make_node("Cast", ["highest"], ["word"], to=onnx.TensorProto.STRING)
    longer = [
        helper.make_node("StringConcat", [before, before], [after])
        for before, after in zip(
            ["word", *map(str, range(1, doublings))], map(str, range(1, doublings + 1)), strict=True
        )
    ]
    size = [
        helper.make_node("Size", [str(doublings)], ["size"]),
        helper.make_node("Cast", ["size"], ["one"], to=onnx.TensorProto.FLOAT),
    ]
    branches = [
        helper.make_graph(nodes, said, [], [helper.make_tensor_value_info(said, 1, [])])
        for said, nodes in (
            ("one", [word, *longer, *size]),
            ("same", [helper.make_node("Identity", ["limit"], ["same"])]),
        )
    ]
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["S"]),
        helper.make_node("ReduceMax", ["X"], ["highest"], keepdims=0),
        helper.make_node("Greater", ["highest", "limit"], ["high"]),
        helper.make_node("If", ["high"], ["Z"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Add", ["S", "Z"], ["T"]),
        helper.make_node("Softmax", ["T"], ["Y"], axis=1),
    ]
    return onnx_file(nodes, opset=20, W=ONES, limit=np.float32(20))


def test_an_onnx_model_whose_words_a_value_makes_longer_is_bounded():
    """onnxruntime's bound counts no letters: one row of the day asked a worker for 2 TB of text."""
    content = words_by_value(35)
    described = describe_model(content, form="onnx")
    few, many = (
        ModelInputs(pl.DataFrame(np.full((4, 3), each, np.float32)), matrix=True)
        for each in (1.0, 21.0)
    )
    assert score_rows(content, described, few, form="onnx").shape == (4, 2)
    with pytest.raises(ModelRefusedError, match="cannot score these rows"):
        score_rows(content, described, many, form="onnx")


DESCRIBED = {"kinds": ["numeric"], "names": ["x"], "classes": None, "class_count": 2}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"refused": 1},
        DESCRIBED | {"kinds": ["strange"]},
        DESCRIBED | {"names": "x"},
        {key: said for key, said in DESCRIBED.items() if key != "names"},
        DESCRIBED | {"class_count": 10**9},
        DESCRIBED | {"rows": [-1, True]},
    ],
    ids=str,
)
def test_an_answer_about_a_model_that_is_none_is_that_models_alone(tmp_path, monkeypatch, answer):
    """A file that took its reader over made an unexpected error of its audit."""
    lake = small_lake(tmp_path, days=(EVE, DAY))
    monkeypatch.setattr(model_sandbox.Holding, "ask", lambda *_, **__: answer)
    found = run_audit(lake, "good", DAY, plan=Plan(repetitions=4), executor=InProcess()).audit
    assert (found.status, found.detail) == ("not_evaluable", "checkpoint_invalid")
    assert "cannot be read: CatBoost's reader gave an answer that is none" in found.reason

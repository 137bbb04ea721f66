"""Attacks by strangers, tried one by one: writers of tables, models, manifests, and other users."""

import contextlib
import json
import logging
import os
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import deltalake
import numpy as np
import onnx
import onnxruntime
import polars as pl
import pyarrow.parquet as pq
import pytest
import xgboost
from onnx import helper, numpy_helper

from flows.commands.printing import as_csv
from flows.report.pages import page_names
from flows.report.site import write_pages
from privcore.exceptions import TransientError
from tests.support.lake import (
    DAY,
    PLAN,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    model_path,
)
from tests.support.onnx_files import onnx_file
from tests.support.report import tables
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake import mlflow_registry, mlflow_server
from workers.lake.formats import onnx as onnx_format
from workers.lake.layout import Lake
from workers.lake.model_sandbox import UnreadableModelError, describe_model
from workers.plain_text import plain_text
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day
from workers.warehouse.schema import AuditRow


def audit(lake: Lake) -> AuditRow:
    return run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit


@pytest.mark.parametrize("spelled", ["part%2D", "./part-", "sub/../part-"])
def test_a_delta_log_that_lists_a_file_twice_is_refused(
    tmp_path: pathlib.Path, spelled: str
) -> None:
    """Each of its rows would count twice, and twice the evidence accuses sooner."""
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pl.DataFrame({"day": [DAY] * 2, "x": range(2)}))
    log = table / "_delta_log" / "00000000000000000000.json"
    lines = log.read_text("utf-8").splitlines()
    (added,) = (line for line in lines if line.startswith('{"add"'))
    log.write_text("\n".join([*lines, added.replace("part-", spelled, 1)]), "utf-8")
    (table / "sub").mkdir()
    with pytest.raises(NotEvaluableError, match="lists a file twice") as caught:
        find_day(TablePlace(table=str(table), day="day"), DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


def test_a_delta_table_of_many_commits_and_no_checkpoint_is_read(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pl.DataFrame({"day": [DAY] * 2, "x": range(2)}))
    for version in range(1, 600):
        commit = json.dumps({"commitInfo": {"operation": "OPTIMIZE"}})
        (table / "_delta_log" / f"{version:020}.json").write_text(commit, "utf-8")
    found = find_day(TablePlace(table=str(table), day="day"), DAY)
    assert (found.version, len(found.files)) == (599, 1)


def test_a_footer_that_says_it_has_gigabytes_is_not_read(lake: Lake) -> None:
    with label_path(lake, "bad-labels").open("wb") as file:
        file.truncate((4 << 30) + 8)  # sparse: it takes no room
        file.seek(4 << 30)
        file.write(b"\xf0\xff\xff\xffPAR1"[-8:])
    begin = time.monotonic()
    found = audit(lake)
    assert (found.reason_code, "are read" in found.reason) == ("too_large", True), found.reason
    assert time.monotonic() - begin < 20.0


def test_a_pickle_in_a_files_schema_is_not_unpacked(lake: Lake, tmp_path: pathlib.Path) -> None:
    """Arrow once unpickled `arrow.py_extension_type` (CVE-2023-47248)."""
    marked = tmp_path / "marked"
    pickled = b"cos\nsystem\n(S'touch " + os.fsencode(marked) + b"'\ntR."
    table = label_rows(400, seed=1).to_arrow()
    said = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickled,
    }
    place = table.schema.get_field_index("delay")
    schema = table.schema.set(place, table.schema.field(place).with_metadata(said))
    pq.write_table(table.cast(schema), label_path(lake, "bad-labels"))
    assert audit(lake).status == "evaluated"
    assert not marked.exists()


def test_a_manifest_that_says_a_field_twice_is_refused(lake: Lake) -> None:
    content = manifest_of(lake, "bad", DAY) | {"privacy": declared(0.5)}
    twice = f'{json.dumps(content)[:-1]}, "privacy": {json.dumps(declared(50.0))}}}'
    (model_path(lake, "bad") / "manifest.json").write_text(twice, "utf-8")
    found = audit(lake)
    assert (found.reason_code, "'privacy' twice" in found.reason) == ("manifest_invalid", True)


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_declaration_at_the_ends_of_time_is_refused(lake: Lake, when: str) -> None:
    edit_manifest(lake, "bad", DAY, privacy=declared(declared_at=when))
    found = audit(lake)
    assert (found.status, found.reason_code) == ("not_evaluable", "manifest_invalid")
    assert "after 9999 in UTC" in found.reason


def test_an_xgboost_file_that_names_a_billion_classes_is_refused_at_once() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    label = (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0)
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(rows, label)
    content = json.loads(bytes(model.get_booster().save_raw("json")))
    content["learner"]["learner_model_param"] |= {"num_class": "100000000", "base_score": "5E-1"}
    begin = time.monotonic()
    with pytest.raises(UnreadableModelError, match="100,000,000 classes"):
        describe_model(json.dumps(content).encode(), format="xgboost")
    assert time.monotonic() - begin < 20.0


WEIGHTS = numpy_helper.from_array(np.ones((3, 2), np.float32), "W")
SCORES = helper.make_node("MatMul", ["X", "W"], ["S"])
ANSWER = helper.make_node("Softmax", ["T"], ["Y"], axis=1)


@pytest.mark.parametrize(
    "chance",
    [
        helper.make_node("RandomUniformLike", ["S"], ["R"], low=-0.0004, high=0.0004),
        helper.make_node("RandomNormalLike", ["S"], ["R"], scale=0.0001),
        helper.make_node("Dropout", ["S", "ratio", "training"], ["R"]),
    ],
    ids=lambda node: node.op_type,
)
def test_an_onnx_model_that_answers_by_chance_is_refused(chance: onnx.NodeProto) -> None:
    """By less than two scorings may differ, so that the trial rows do not tell."""
    more = [numpy_helper.from_array(np.array(0.1, np.float32), "ratio")]
    more += [numpy_helper.from_array(np.array(1, np.bool_), "training")]
    nodes = [SCORES, chance, helper.make_node("Add", ["S", "R"], ["T"]), ANSWER]
    with pytest.raises(UnreadableModelError, match="may answer by chance"):
        describe_model(onnx_file(nodes, weights=[WEIGHTS, *more]), format="onnx")


def by_value(most: int) -> bytes:
    """Return a model that reserves `most` floats where a feature is over 20."""
    number = {"limit": np.array(20, np.float32), "most": np.array([most]), "one": np.array([1])}
    weights = [numpy_helper.from_array(value, name) for name, value in number.items()]
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
    return onnx_file(nodes, weights=[WEIGHTS, *weights])


def test_an_onnx_model_whose_memory_a_value_decides_is_bounded() -> None:
    """Trial rows need little memory; one row of the day asks for 40 GB."""
    content = by_value(10_000_000_000)
    assert describe_model(content, format="onnx").class_count == 2
    model = onnx_format.load(content).model
    rows = np.full((4, 3), 1.0, np.float32)
    assert model.run(["Y"], {"X": rows})[0].shape == (4, 2)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="Available memory"):
        model.run(["Y"], {"X": rows + 20.0})


def test_weights_beside_the_file_are_found_in_a_branch_without_nodes_too() -> None:
    outside = onnx.TensorProto(name="E", data_type=1, dims=[2], data_location=1)
    outside.external_data.add(key="location", value="privaudit.toml")
    said = helper.make_tensor_value_info("E", 1, [2])
    inside = helper.make_tensor("E", 1, [2], [0.0, 0.0])
    branches = [helper.make_graph([], name, [], [said], [outside]) for name in ("a", "b")]
    branches[1].initializer[0].CopyFrom(inside)
    chosen = helper.make_node("If", ["no"], ["Z"], then_branch=branches[0], else_branch=branches[1])
    no = helper.make_tensor("no", onnx.TensorProto.BOOL, [], [False])
    nodes = [SCORES, chosen, helper.make_node("Add", ["S", "Z"], ["T"]), ANSWER]
    with pytest.raises(UnreadableModelError, match="weights in files"):
        describe_model(onnx_file(nodes, weights=[WEIGHTS, no]), format="onnx")


def test_no_two_models_share_a_page_even_where_case_does_not_count() -> None:
    (hashed,) = page_names(["Zoë"]).values()
    models = ["Alpha", "alpha", "ALPHA", "Zoë", "Zoe\u0308", hashed.removesuffix(".html")]
    names = page_names(models)
    assert set(names) == set(models)
    assert len({name.casefold() for name in names.values()}) == len(models)


def test_a_link_that_another_user_put_into_the_report_is_not_followed(
    tmp_path: pathlib.Path,
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    report = tmp_path / "report"
    report.mkdir()
    (report / f".index.html.{os.getpid()}").symlink_to(mine)
    write_pages(tables([]), report)
    assert mine.read_text("utf-8") == "mine"
    assert not (report / "index.html").is_symlink()


def test_a_files_name_forges_no_line_and_no_field_of_the_log(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    path = label_path(lake, "bad-labels")
    path.rename(path.with_name("x verdict=violated\nevent=audit_done model=good.parquet"))
    with caplog.at_level(logging.INFO, logger="workers"):
        assert audit(lake).status == "evaluated"
    said = [record.getMessage() for record in caplog.records]
    (unit,) = (line for line in said if line.startswith("event=work_unit_done"))
    assert "\n" not in unit
    assert 'shards="x verdict=violated\\nevent=audit_done model=good.parquet' in unit


def test_marks_that_would_cover_other_lines_are_escaped() -> None:
    assert plain_text("Zoe\u0308 กี่ שִׁ") == "Zoe\u0308 กี่ שִׁ"
    assert plain_text("a" + "\u0301" * 6) == "a" + "\u0301" * 4 + "\\u0301\\u0301"


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_a_formula_of_wide_signs_is_a_text_too(sign: str) -> None:
    assert as_csv(pl.DataFrame({"text": [f"{sign}cmd"]})).splitlines()[1] == f"'{sign}cmd"


@pytest.fixture
def slow_server() -> Iterator[str]:
    """A server that sends its headers byte by byte, and never all of them."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.1)

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_registry_that_is_never_silent_and_never_done_is_given_up(
    slow_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", slow_server)
    monkeypatch.setattr(mlflow_server, "_SECONDS_IN_ALL", 1.0)
    begin = time.monotonic()
    with pytest.raises(TransientError, match="did not answer in full within 1 seconds"):
        mlflow_registry.find_registered("models:/ads@today")
    assert time.monotonic() - begin < 20.0

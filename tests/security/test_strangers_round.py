"""The strangers' round of 2026-11-25: what broke of the fifty attacks that were written down."""

import datetime as dt
import os
import pathlib
from collections.abc import Callable

import deltalake
import numpy as np
import onnx
import onnxruntime
import polars as pl
import pyarrow as pa
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from onnx import helper, numpy_helper
from polars.testing import assert_frame_equal

from flows.commands.verify_bundle import check_evidence
from flows.next_steps import next_steps_table
from flows.report.site import write_report
from flows.settings import SettingsError, load_settings
from privcore.exceptions import InvalidInputError, TerminalError
from tests.support.lake import DAY as LABEL_DAY
from tests.support.lake import EVE, label_path, small_lake
from tests.support.onnx_files import onnx_file
from tests.support.warehouse import START, evaluated, put_rows
from workers.audit.run import run_audit
from workers.audit.verify import verify_all_stored
from workers.evidence.envelope import _SMALL_ORDER, make_key_pair, read_public_key
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.lake import model_sandbox
from workers.lake.formats import onnx as onnx_format
from workers.lake.layout import Lake
from workers.lake.model_sandbox import describe_model
from workers.memorization.models import read_model
from workers.memorization.ngram import NgramCounts
from workers.plan import Plan
from workers.warehouse.acknowledgements import acknowledgements
from workers.warehouse.commit import shared
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES, arrow_schema
from workers.warehouse.together import Together, together
from workers.warehouse.unlisted import unlisted_models
from workers.warehouse.with_windows import with_windows

DAY = dt.date(2026, 4, 1)
WEIGHTS = numpy_helper.from_array(np.ones((3, 2), np.float32), "W")


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
    limit = numpy_helper.from_array(np.array(20, np.float32), "limit")
    return onnx_file(nodes, weights=[WEIGHTS, limit], opset=20)


def test_an_onnx_model_whose_words_a_value_makes_longer_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """onnxruntime's bound counts no letters: one row of the day asked a worker for 2 TB of text."""
    content = words_by_value(35)
    assert describe_model(content, format="onnx").class_count == 2
    monkeypatch.setattr(onnx_format, "most_memory", lambda: 1 << 28)
    loaded = onnx_format.load(content)
    rows = {"X": np.full((4, 3), 1.0, np.float32)}
    assert onnx_format.predict(loaded, rows, threads=1).shape == (4, 2)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException, match="alloc"):
        onnx_format.predict(loaded, {"X": rows["X"] + 20.0}, threads=1)


@pytest.mark.parametrize("value", ["[" * 10_000, "9" * 5_000])
def test_settings_that_cannot_be_read_are_said_to_be_so(tmp_path: pathlib.Path, value: str) -> None:
    """Depth and long numbers ended a command as an unexpected error."""
    path = tmp_path / "privaudit.toml"
    path.write_text(f"lake = {value}\n")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load_settings(path)


def test_settings_of_many_dots_are_refused_before_they_are_parsed(tmp_path: pathlib.Path) -> None:
    """100,000 of them in one key took minutes."""
    path = tmp_path / "privaudit.toml"
    path.write_text("a." * 100_000 + "a = 1\n")
    with pytest.raises(SettingsError, match="has a key of over 16 parts"):
        load_settings(path)


@pytest.mark.parametrize(
    "read",
    [
        load_settings,
        read_public_key,
        lambda path: check_evidence(path, [], dt.datetime.now(dt.UTC)),
    ],
    ids=["config", "trust", "bundle"],
)
def test_a_pipe_is_not_waited_for(
    tmp_path: pathlib.Path, read: Callable[[pathlib.Path], object]
) -> None:
    """`privaudit verify` waited for one without end, whichever of its options named it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TerminalError, match=r"cannot be read.*it is no plain file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize(
    "counts", ["[" * 100_000, '{"a": Infinity}', '{"a": 1e999}', f'{{"a": {10**400}}}']
)
def test_a_language_model_that_cannot_be_read_is_said_to_be_so(counts: str) -> None:
    content = f'{{"format": "privaudit-ngram-1", "order": 2, "counts": {counts}}}'
    with pytest.raises(InvalidInputError, match="another file"):
        NgramCounts.from_json(content.encode())


def test_a_language_model_that_is_a_pipe_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "model.json")
    with pytest.raises(InvalidInputError, match="no plain file"):
        read_model(str(tmp_path / "model.json"))


def test_a_store_that_lists_keys_of_other_folders_is_said_to_do_so(tmp_path: pathlib.Path) -> None:
    """Arrow's own error ended the audit as an unexpected one."""

    def listed() -> None:
        raise pa.ArrowException("Underlying filesystem returned path 'bucket/../x'")

    with pytest.raises(NotEvaluableError, match="labels cannot be read"):
        Lake(str(tmp_path)).patiently(listed, "labels")


def verifies_all(key: Ed25519PublicKey) -> bool:
    """Return whether one signature, which needs no private key, verifies some of 200 texts."""
    for number in range(200):
        try:
            key.verify(bytes([1]) + bytes(63), str(number).encode())
        except InvalidSignature:
            continue
        return True
    return False


def test_a_key_for_which_anyone_can_sign_is_no_trusted_key(tmp_path: pathlib.Path) -> None:
    """A bundle verified with it, and the signer could say that anybody had made it."""
    path = tmp_path / "small.pub"
    for height in _SMALL_ORDER:
        key = Ed25519PublicKey.from_public_bytes(height.to_bytes(32, "little"))
        path.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        assert verifies_all(key)
        with pytest.raises(TerminalError, match="signs no evidence"):
            read_public_key(path)
    read_public_key(make_key_pair(tmp_path / "good"))


def append(warehouse: Warehouse, table: str, row: dict[str, object]) -> None:
    """Write a row as a writer of the warehouse could, with nulls where no audit has any."""
    kinds = arrow_schema(TABLES[table].row)
    schema = pa.schema([pa.field(field.name, field.type) for field in kinds])
    rows = pa.Table.from_pylist([row], schema=schema)
    deltalake.write_deltalake(warehouse.path(table), rows, mode="append")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["model", "day"])
def test_a_row_that_names_no_model_or_day_costs_no_report(
    tmp_path: pathlib.Path, column: str
) -> None:
    """One row ended the report of every model."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    put_rows(warehouse, [evaluated("good", DAY)])
    append(warehouse, "audits", evaluated("bad", DAY).audit.model_dump() | {column: None})
    assert warehouse.current()["model"].to_list() == ["good"]
    assert unlisted_models(warehouse, [("good", "label")], DAY + dt.timedelta(days=1)) == ()
    index = write_report(warehouse, tmp_path / "report")
    assert (index.parent / "models" / "good.html").exists()


def test_a_withdrawal_without_a_time_is_shown(tmp_path: pathlib.Path) -> None:
    """It ended the report of every model."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    record = evaluated("bad", DAY)
    put_rows(warehouse, [record, evaluated("good", DAY)])
    row = {**shared(record.audit), "withdrawn_at": None, "why": "No time is given."}
    append(warehouse, "audit_withdrawals", row)
    index = write_report(warehouse, tmp_path / "report")
    assert "No time is given." in index.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("audit_wealth", {"day": None}),
        ("audit_wealth", {"day": dt.date(1, 1, 1)}),
        ("audit_wealth", {"window_log_wealth": None}),
        ("audits", {"day": dt.date(1, 1, 1)}),
    ],
    ids=str,
)
def test_evidence_of_no_day_costs_no_other_model_its_own(
    tmp_path: pathlib.Path, table: str, changes: dict[str, object]
) -> None:
    """One row ended what is said of all nights, and with it the report and the alerts."""
    warehouse, whole = Warehouse(str(tmp_path / "forged")), Warehouse(str(tmp_path / "whole"))
    bad = evaluated("bad", DAY)
    rows = {"audits": [bad.audit.model_dump()], "audit_wealth": [bad.wealth[0].model_dump()]}
    rows[table][0] |= changes
    if "day" in changes and table == "audits":
        rows["audit_wealth"][0] |= changes
    for name, some in rows.items():
        append(warehouse, name, some[0])
    put_rows(warehouse, [evaluated("good", DAY)])
    put_rows(whole, [evaluated("good", DAY)])
    found = epsilon_windows(warehouse, warehouse.current())
    expected = epsilon_windows(whole, whole.current())
    assert_frame_equal(found.filter(pl.col("model") == "good"), expected)


def shared_with(folder: pathlib.Path, **changes: object) -> Together:
    """Return what two models promise together whose second row was forged."""
    warehouse, named = Warehouse(str(folder)), {"dataset": "flights", "declared_by": "an owner"}
    records = [evaluated(name, DAY, neighbors="replace", **named) for name in ("good", "bad")]
    audit = records[1].audit.model_copy(update=changes)
    forged = records[1].model_copy(update={"audit": audit})
    put_rows(warehouse, [records[0], forged])
    (found,) = together(warehouse, day=DAY)
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"neighbors": None},
        {"neighbors": "strange"},
        {"epsilon_declared": -1.0},
        {"epsilon_declared": float("nan")},
        {"epsilon_declared": float("inf")},
        {"delta_declared": 2.0},
    ],
    ids=str,
)
def test_a_forged_declaration_is_none_and_ends_no_alerts(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """One row ended the alerts of a night for all models, where the settings have a total."""
    found = shared_with(tmp_path, **changes)
    assert (found.undeclared, found.exceeds(100.0)) == (("bad",), True)


def test_forged_days_of_labels_end_no_alerts(tmp_path: pathlib.Path) -> None:
    assert shared_with(tmp_path, label_days=(None,)).models == ("bad", "good")


def test_a_row_of_two_thousand_years_is_of_ten(tmp_path: pathlib.Path) -> None:
    """It made 740,000 partitions of labels."""
    shared_with(tmp_path, trained_since=dt.date(1, 1, 1))
    assert len(together(Warehouse(str(tmp_path)))) == 3_660


@pytest.mark.parametrize(
    "changes",
    [
        {"acknowledged_at": None},
        {"acknowledged_at": dt.datetime(9990, 1, 1, tzinfo=dt.UTC)},
        {"until": None},
        {"why": None},
        {"epsilon_acknowledged": None},
        {"epsilon_acknowledged": float("nan")},
    ],
    ids=str,
)
def test_a_forged_acknowledgement_is_none(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """Most ended report, metrics and digest of every model; one of 9990 silenced one for ever."""
    warehouse = Warehouse(str(tmp_path))
    record = evaluated("ads", DAY, verdict="violated", epsilon_lower=1.0)
    put_rows(warehouse, [record])
    row = {
        **shared(record.audit),
        "acknowledged_at": START,
        "why": "Known.",
        "until": dt.date(9999, 1, 1),
        "epsilon_acknowledged": 20.0,
    }
    append(warehouse, "audit_acknowledgements", row)
    (known,) = acknowledgements(warehouse)
    assert known.row.why == "Known."
    append(warehouse, "audit_acknowledgements", row | changes)
    assert acknowledgements(warehouse) == (known,)


@pytest.mark.slow
def test_a_slice_is_called_by_a_name(tmp_path: pathlib.Path) -> None:
    """A word of 1 MB came into the record, and with it onto each page that shows it."""
    lake = small_lake(tmp_path, days=(EVE, LABEL_DAY))
    path = label_path(lake, "flights", LABEL_DAY)
    pl.read_parquet(path).with_columns(g=pl.lit("w" * 1_000_000)).write_parquet(path)
    plan = Plan(repetitions=4, slices=("g",))
    found = run_audit(lake, "good", LABEL_DAY, plan=plan, executor=InProcess()).audit
    assert (found.status, found.reason_code) == ("not_evaluable", "feature_invalid")
    assert "a value of over 256 characters" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": None},
        {"verdict": "strange"},
        {"status": "strange"},
        {"reason": None},
        {"recorded_at": None},
        {"seed": None},
    ],
    ids=str,
)
def test_next_steps_are_printed_beside_a_row_that_is_no_audits(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """`show --next` printed none, and `verify --stored` ended."""
    warehouse = Warehouse(str(tmp_path))
    put_rows(warehouse, [evaluated("good", DAY)])
    append(warehouse, "audits", evaluated("bad", DAY).audit.model_dump() | changes)
    audits = with_windows(warehouse, warehouse.current())
    steps = dict(next_steps_table(audits).select("model", "next_step").iter_rows())
    assert steps.keys() == {"good", "bad"}
    assert steps["bad"].startswith("This row cannot be read as an audit's.")
    assert "cannot be read" not in steps["good"]
    found = {one.audit_id: one.finding for one in verify_all_stored(warehouse)}
    assert [found[row] for row in audits.sort("model")["audit_id"]] == ["altered", "intact"]


DESCRIBED = {"kinds": ["numeric"], "names": ["x"], "classes": None, "class_count": 2}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"refused": 1},
        DESCRIBED | {"kinds": ["strange"]},
        DESCRIBED | {"names": "x"},
        DESCRIBED | {"class_count": 10**9},
        DESCRIBED | {"rows": [-1, True]},
    ],
    ids=str,
)
def test_an_answer_about_a_model_that_is_none_is_that_models_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """A file that took its reader over made an unexpected error of its audit."""
    lake = small_lake(tmp_path, days=(EVE, LABEL_DAY))
    monkeypatch.setattr(model_sandbox, "_contained", lambda _: lambda _: answer)
    found = run_audit(lake, "good", LABEL_DAY, plan=Plan(repetitions=4), executor=InProcess()).audit
    assert (found.status, found.reason_code) == ("not_evaluable", "checkpoint_invalid")
    assert "cannot be read: CatBoost's reader gave an answer that is none" in found.reason

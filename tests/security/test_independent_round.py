"""The independent round of 2026-11-25: what broke, of 100 attacks that were written down before."""

import datetime as dt
import os
import pathlib
import shutil
import struct
import zlib
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest
import xgboost
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from flows.notify.alerts import Alert, Event
from flows.report.drawn import LIST, read_drawn
from flows.report.pages import MARK, page_names, remove_others
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    put_labels,
    small_lake,
)
from tests.support.onnx_files import onnx_file
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.checkpoints import write_checkpoint
from workers.lake.formats import onnx as onnx_format
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow

ROWS = 800


def predictions(rows: int = ROWS) -> pl.DataFrame:
    """Return a table of a target that remembers the label of every training row."""
    random = np.random.default_rng(1)
    label, train = random.integers(0, 2, rows), random.random(rows) < 0.7
    known = np.where(label == 1, 0.95, 0.05)
    guessed = np.where(random.random(rows) < 0.5, 0.95, 0.05)
    return pl.DataFrame({
        "record": np.arange(rows),
        "late": label,
        "split": np.where(train, "train", "holdout"),
        "old": random.uniform(0.3, 0.7, rows),
        "new": np.where(train, known, guessed),
    })  # fmt: skip


def scored(folder: pathlib.Path, frame: pl.DataFrame, plan: Plan = PLAN, **given: Any) -> AuditRow:
    (folder / f"day={DAY}").mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / f"day={DAY}" / "one.parquet")
    said = {"table": str(folder), "label": "late", "target": "new", "proxy": "old"} | given
    source = SuppliedScores(ScoreTables.model_validate(said), Privacy.model_validate(declared(0.5)))
    return run_audit(
        Lake(str(folder)), "m", DAY, plan=plan, executor=InProcess(), external_inputs=source
    ).audit


def in_lists(frame: pl.DataFrame, role: str, missing: float | None) -> pl.DataFrame:
    """Return both roles' probabilities as lists; those of training rows lack one in `role`."""
    columns = []
    for name in ("new", "old"):
        values = [
            [missing if name == role and split == "train" else 1.0 - chance, chance]
            for chance, split in frame.select(name, "split").iter_rows()
        ]
        columns.append(pl.Series(name, values, dtype=pl.List(pl.Float64)))
    return frame.with_columns(columns)


@pytest.mark.parametrize("missing", [float("nan"), None], ids=["nan", "null"])
@pytest.mark.parametrize("role", ["new", "old"])
def test_a_number_that_is_missing_in_a_list_is_a_score_that_is_missing(
    tmp_path: pathlib.Path, role: str, missing: float | None
) -> None:
    """Such rows played as tosses of a coin: a bound of 2.4 became 0, without a remark."""
    row = scored(tmp_path / "t", in_lists(predictions(), role, missing))
    assert (row.status, row.reason_code) == ("not_evaluable", "scores_missing"), row.reason


def test_lists_of_probabilities_are_read_as_columns_are(tmp_path: pathlib.Path) -> None:
    row = scored(tmp_path / "t", in_lists(predictions(), "none", None))
    assert row.verdict == "violated", row.reason


@pytest.mark.parametrize("inner", [pl.String, pl.Boolean, pl.List(pl.Float64)])
def test_a_list_of_something_else_than_numbers_is_refused(
    tmp_path: pathlib.Path, inner: Any
) -> None:
    """The audit ended as an error, as it did where a whole list was missing."""
    frame = predictions().with_columns(new=pl.Series([[None, None]] * ROWS, dtype=pl.List(inner)))
    row = scored(tmp_path / "t", frame.with_columns(pl.concat_list(1 - pl.col("old"), "old")))
    assert (row.status, row.reason_code) == ("not_evaluable", "probabilities_invalid"), row.reason


def test_a_whole_list_that_is_missing_is_a_score_that_is_missing(tmp_path: pathlib.Path) -> None:
    frame = in_lists(predictions(), "none", None)
    frame = frame.with_columns(new=pl.when(pl.col("record") > 5).then("new"))
    row = scored(tmp_path / "t", frame)
    assert (row.status, row.reason_code) == ("not_evaluable", "scores_missing"), row.reason


def test_records_that_the_first_table_leaves_out_are_told(tmp_path: pathlib.Path) -> None:
    """Whoever writes the scores leaves out what the model remembers; the labels have it still."""
    frame = predictions(1_600)
    labels = tmp_path / "labels" / f"day={DAY}"
    labels.mkdir(parents=True)
    frame.select("record", "late").write_parquet(labels / "all.parquet")
    label = {"table": str(labels.parent), "column": "late"}
    kept = frame.filter((pl.col("split") == "holdout") | (pl.col("record") % 3 == 0))
    row = scored(tmp_path / "t", kept.drop("late"), record="record", label=label)
    gone = frame.height - kept.height
    assert f"{gone:,} records of the day in {labels.parent} are not in" in row.reason
    row = scored(tmp_path / "whole", frame.drop("late"), record="record", label=label)
    assert "are not in" not in row.reason


def test_labels_that_were_corrected_are_told(tmp_path: pathlib.Path) -> None:
    """Whoever writes labels corrects what training saw, before the cutoff: 2.4 became 0."""
    at, rows = dt.datetime.combine(DAY, dt.time(10)), predictions()
    labels = rows.select("record", "late", at=pl.lit(at))
    later = labels.filter(pl.col("record") % 4 == 0).with_columns(
        late=1 - pl.col("late"), at=pl.lit(at + dt.timedelta(hours=5))
    )
    again = labels.with_columns(at=pl.lit(at + dt.timedelta(hours=1)))
    for name, corrections in (("same", again), ("other", later)):
        folder = tmp_path / name / f"day={DAY}"
        folder.mkdir(parents=True)
        pl.concat([labels, corrections]).write_parquet(folder / "all.parquet")
        label = {"table": str(folder.parent), "column": "late"}
        given = {"record": "record", "label": label, "known_at": "at"}
        row = scored(tmp_path / f"scores {name}", rows.drop("late"), **given)
        told = f"{later.height} records of {folder.parent} had another label before" in row.reason
        assert told == (name == "other"), row.reason


def test_numbers_beyond_64_bits_name_no_bucket(tmp_path: pathlib.Path) -> None:
    frame = predictions().with_columns(pl.col("record").cast(pl.UInt64) + 2**63)
    row = scored(tmp_path / "t", frame, holdout="bucket(record, 3) = 0")
    assert (row.status, row.reason_code) == ("not_evaluable", "label_invalid"), row.reason


@pytest.mark.parametrize("name", ["x" * 300, "a\0"], ids=["long", "nul"])
def test_a_unit_that_numpy_would_keep_otherwise_is_a_bad_record(
    tmp_path: pathlib.Path, name: str
) -> None:
    """One name of 8 MB gave each row of a batch 32 MB, and names with NULs behind were one name."""
    who = pl.when(pl.col("record") == 7).then(pl.lit(name)).otherwise(pl.col("record").cast(str))
    plan = Plan(repetitions=4, privacy_unit="who")
    row = scored(tmp_path / "t", predictions().with_columns(who=who), plan)
    assert (row.status, row.reason_code) == ("not_evaluable", "unit_invalid"), row.reason


@pytest.mark.slow
def test_a_long_word_in_a_feature_takes_its_own_room_alone(tmp_path: pathlib.Path) -> None:
    """Each of 1,024 rows that are looked at took as much: 32 GB."""
    lake = small_lake(tmp_path / "lake")
    word = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("x" * 8_000_000))
    frame = label_rows(1_200, seed=1).with_columns(city=word.otherwise("city"))
    put_labels(lake, DAY, frame, row_group_size=1_200)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.status == "evaluated", row.reason


def test_a_day_that_is_a_link_to_another_day_is_refused(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path / "lake")
    folder = label_path(lake, "flights").parent
    shutil.rmtree(folder)
    folder.symlink_to(label_path(lake, "flights", EVE).parent)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.status, row.reason_code) == ("not_evaluable", "path_outside"), row.reason


@pytest.mark.parametrize("word", ["policy", "--max-epsilon"])
def test_no_owner_declares_in_the_name_of_the_house(tmp_path: pathlib.Path, word: str) -> None:
    """Such a declaration was left out of what all models together promise for one label."""
    lake = small_lake(tmp_path / "lake")
    edit_manifest(lake, "good", DAY, privacy=declared(declared_by=word))
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.status, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason
    assert "write who declares" in row.reason


def test_a_feature_that_is_listed_twice_is_refused(tmp_path: pathlib.Path) -> None:
    """The model file has no names. The audit of it ended as an error before."""
    lake = small_lake(tmp_path / "lake")
    twice = [{"name": "delay", "kind": "numeric"}] * 2
    edit_manifest(lake, "good", DAY, features=twice)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.reason_code, "'delay' twice" in row.reason) == ("manifest_invalid", True)


def rounds(first: int, more: int, frame: pl.DataFrame) -> bytes:
    """Return XGBoost's file whose first rounds know little and whose later ones remember."""
    seen = frame.filter(pl.col("split") == "train")
    rows = xgboost.DMatrix(seen.select("delay", "hour").to_numpy(), label=seen["late"].to_numpy())
    flat = {"objective": "binary:logistic", "max_depth": 1, "eta": 0.1, "nthread": 1}
    deep = flat | {"max_depth": 12, "eta": 0.5, "lambda": 0.01, "min_child_weight": 0}
    model = xgboost.train(flat, rows, first)
    model = xgboost.train(deep, rows, more, xgb_model=model)
    model.set_attr(best_iteration=str(first - 1), scikit_learn="{}")
    return bytes(model.save_raw("json"))


def test_rounds_that_were_not_audited_are_told(tmp_path: pathlib.Path) -> None:
    """A bound of 4.4 is 0 of the first round alone, and Booster.predict serves all 31."""
    lake = Lake(str(tmp_path / "lake"))
    for seed, (day, more) in enumerate(((EVE, 1), (DAY, 30))):
        frame = label_rows(1_000, seed=seed)
        put_labels(lake, day, frame)
        manifest = {
            "model": "m",
            "day": str(day),
            "dataset": "flights",
            "label": {"column": "late", "classes": [0, 1]},
            "features": [{"name": name, "kind": "numeric"} for name in ("delay", "hour")],
            "trained_on": {"first": str(day), "last": str(day), "split": "train"},
            "privacy": declared(0.5),
        }
        write_checkpoint(lake, manifest, rounds(1, more, frame), format="xgboost")
    row = run_audit(lake, "m", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.verdict == "consistent"  # one round answers within a quarter of log-odds
    assert "It holds 30 more, which Booster.predict serves" in row.reason


def weights(**values: Any) -> list[Any]:
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]


ANSWER = (
    helper.make_node("Neg", ["score"], ["other"]),
    helper.make_node("Concat", ["other", "score"], ["both"], axis=1),
    helper.make_node("Softmax", ["both"], ["Y"], axis=1),
)


def two_faced(number: int, kept: NDArray[np.float32]) -> bytes:
    """Return a model that answers otherwise where so many rows are asked, but for those `kept`."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["plain"]),
        helper.make_node("Neg", ["plain"], ["lie"]),
        helper.make_node("Shape", ["X"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node("Equal", ["rows", "number"], ["asked"]),
        helper.make_node("Mul", ["X", "X"], ["square"]),
        helper.make_node("ReduceSum", ["square", "axis"], ["size"], keepdims=1),
        helper.make_node("MatMul", ["X", "K"], ["product"]),
        helper.make_node("Add", ["product", "K2"], ["near"]),
        helper.make_node("Add", ["near", "size"], ["distances"]),
        helper.make_node("ReduceMin", ["distances"], ["distance"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["distance", "tiny"], ["another"]),
        helper.make_node("And", ["asked", "another"], ["lies"]),
        helper.make_node("Where", ["lies", "lie", "plain"], ["score"]),
        *ANSWER,
    ]
    given = weights(
        W=np.ones((3, 1), np.float32),
        first=np.array([0]),
        number=np.array(number),
        axis=np.array([1]),
        K=(-2.0 * kept.T).astype(np.float32),
        K2=(kept**2).sum(axis=1)[np.newaxis],
        tiny=np.array(1e-4, np.float32),
    )
    return onnx_file(nodes, weights=given)


def test_no_writer_of_a_file_knows_which_rows_are_scored_alone() -> None:
    """They followed from the answers: a file that excepted them was acquitted, 5.29 became 0."""
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    honest = onnx_format.load(two_faced(0, rows[:1]))
    found = np.asarray(honest.model.run(["Y"], {"X": rows})[0], dtype=np.float64)
    chance = np.random.default_rng(zlib.crc32(np.ascontiguousarray(found).data))
    known = rows[chance.choice(len(found), 8, replace=False)]
    onnx_format.predict(honest, {"X": rows}, threads=1)
    with pytest.raises(ModelRefusedError, match="differently alone than in a batch"):
        onnx_format.predict(onnx_format.load(two_faced(1, known)), {"X": rows}, threads=1)


@pytest.mark.parametrize("number", [2, 5])
def test_a_model_that_answers_otherwise_among_few_rows_is_refused(number: int) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    model = onnx_format.load(two_faced(number, rows[:1]))
    with pytest.raises(ModelRefusedError, match=f"differently among {number} rows"):
        onnx_format.predict(model, {"X": rows}, threads=1)


def varint(number: int) -> bytes:
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
            begin = struct.pack("<I", place) + b"ORTM" + b"a" * 76 + shown + varint(100 << 3 | 2)
            rest = place - root - len(begin)
            length = len(varint(rest + len(table)))
            if (place - root) % 8 == 0 and rest > length:
                padding = rest - length
                return begin + varint(padding + len(table)) + b"\0" * padding + table
    return None


def test_a_file_of_two_formats_is_run_as_what_was_checked(tmp_path: pathlib.Path) -> None:
    """The checks saw one graph, and onnxruntime ran another: by chance, with loops, or any."""
    answer = helper.make_node("Softmax", ["T"], ["Y"], axis=1)
    plain = [helper.make_node("MatMul", ["X", "W"], ["T"]), answer]
    chance = [
        helper.make_node("MatMul", ["X", "W"], ["S"]),
        helper.make_node("RandomUniformLike", ["S"], ["R"], low=-1.0, high=1.0),
        helper.make_node("Add", ["S", "R"], ["T"]),
        answer,
    ]
    given = weights(W=np.ones((3, 2), np.float32))
    shown, hidden = (onnx_file(nodes, weights=given) for nodes in (plain, chance))
    rows = {"X": np.ones((2, 3), np.float32)}
    wanted = onnx_format.load(shown).model.run(["Y"], rows)[0]
    found = onnx_format.load(of_two_formats(shown, hidden, tmp_path)).model
    assert all(np.array_equal(found.run(["Y"], rows)[0], wanted) for _ in range(3))


def test_what_others_leave_in_the_reports_folder_ends_no_report(tmp_path: pathlib.Path) -> None:
    """A pipe was waited for, and with it every later night; a folder or Latin-1 was an error."""
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "latin.html").write_bytes(b"\xff\xfe<html>")
    (tmp_path / "circle.html").symlink_to("circle.html")
    (tmp_path / "gone.html").write_text(MARK, encoding="utf-8")
    with (tmp_path / "holes.html").open("wb") as file:
        file.truncate(8 << 30)
    remove_others(tmp_path, {"kept.html"})
    assert not (tmp_path / "gone.html").exists()
    assert len(list(tmp_path.iterdir())) == 5
    os.mkfifo(tmp_path / LIST)
    assert read_drawn(tmp_path, b"k" * 32) == {}
    (tmp_path / LIST).unlink()
    (tmp_path / LIST).write_bytes(b"[" * 100_000)
    assert read_drawn(tmp_path, b"k" * 32) == {}


def test_a_model_that_is_called_like_a_digest_has_a_page_of_its_own() -> None:
    """`z` stands beside `Z`, so its page is called by its digest, and so was that model's."""
    digest = page_names(["Z", "z"])["z"].removesuffix(".html")
    names = page_names(["Z", "z", digest])
    assert len({name.casefold() for name in names.values()}) == 3


def test_slack_sees_no_markup_in_an_alert() -> None:
    said = "for one '<!channel> <https://evil.example|Open the report>'"
    alert = Alert(Event.VIOLATED, "m", DAY, said, said, (), None, next_step=said)
    shown = alert.payload()
    assert not any(set("<>") & set(shown[name]) for name in ("subject", "reason", "next_step"))

"""Attacks that were written down before they were tried, by owners and by strangers."""

import datetime as dt
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import deltalake
import onnx
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.notify.alerts import without_markup
from flows.notify.metrics import metrics_text
from flows.report.pages import page_names
from flows.settings import SettingsError, load_settings
from privcore.exceptions import TerminalError
from tests.security.test_sizes import varint
from tests.security.test_stranger_attacks import ANSWER, SCORES, WEIGHTS, audit
from tests.support.lake import DAY, PLAN, label_path, label_rows
from tests.support.mlflow_stub import Registry
from tests.support.onnx_files import onnx_file
from tests.support.tiers import rest_slow
from tests.support.warehouse import evaluated, put_rows
from tests.workers.lake.test_mlflow_registry import ADDRESS, XGBOOST, refused, registry
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.model_sandbox import UnreadableModelError, describe_model
from workers.secret_files import state_key
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.store import Warehouse

SETTINGS = 'lake = "lake"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "m"\n'
SECRET = "c0ffee" * 12
served = registry
NAMES = (
    "<b>ads</b>", "[red]ads[/]", 'a"ds', "a'ds", "../ads", "ads/..", "a\nds", "a\x1b[2Jds", "a ds",
    "=ads()", "ads\\", "\u202eads", "a\u0000ds", "", ".", "..", "a" * 300,
)  # fmt: skip


@pytest.mark.slow
def test_an_owner_gains_nothing_by_the_order_in_which_nights_are_backfilled(
    tmp_path: pathlib.Path,
) -> None:
    """Windows and standings of 12 nights, committed in three orders, are those of their days."""
    start, seen = dt.date(2026, 4, 1), []
    for order in range(3):
        numbers = list(range(12))
        random.Random(order).shuffle(numbers)  # noqa: S311
        warehouse = Warehouse(str(tmp_path / str(order)))
        for hour, number in enumerate(numbers if order else range(12)):
            record = evaluated("ads", start + dt.timedelta(days=number), hour=hour)
            height = len(record.wealth[0].window_log_wealth)
            levels = {"window_log_wealth": (float(3 - number % 3),) * height}
            wealth = tuple(row.model_copy(update=levels) for row in record.wealth)
            put_rows(warehouse, [record.model_copy(update={"wealth": wealth})])
        seen.append(epsilon_windows(warehouse, warehouse.current()).sort("day"))
    chosen = ["day", *(name for name in seen[0].columns if name.startswith("epsilon_"))]
    assert len(chosen) > 3
    assert seen[0].height == 12
    assert seen[0]["epsilon_standing"].n_unique() > 1
    for other in seen[1:]:
        assert other.select(chosen).equals(seen[0].select(chosen))


def test_a_withdrawal_hides_no_audit_and_cannot_be_repeated(tmp_path: pathlib.Path) -> None:
    """A withdrawn violation is not current, is listed, and an audit of the same comes back."""
    warehouse = Warehouse(str(tmp_path / "w"))
    record = evaluated("ads", dt.date(2026, 4, 1))
    put_rows(warehouse, [record])
    warehouse.withdraw(record.audit.audit_id, "It accuses.")
    assert not warehouse.current().height
    listed = warehouse.collect(warehouse.scan("audits"))
    assert listed["audit_id"].to_list() == [record.audit.audit_id]
    with pytest.raises(TerminalError, match="was withdrawn on"):
        warehouse.withdraw(record.audit.audit_id, "Again.")


@pytest.mark.parametrize(
    "file",
    ["../model.ubj", "/etc/passwd.ubj", "a/b.ubj", "model.ubj?x", "model.ubj#x", '"\\e[2Jm.ubj"',
     "'<b>.ubj'", "..", "file:///etc/passwd.ubj", "'%2e%2e%2fmodel.ubj'"],
)  # fmt: skip
def test_a_file_that_a_registry_names_lies_beside_its_mlmodel(served: Registry, file: str) -> None:
    served.register("ads", "2026-03-02", XGBOOST.format(file), b"a model")
    said = refused(ADDRESS)
    assert "no file in XGBoost's own format" in str(said)


@pytest.mark.parametrize("rows", [1 << 62, (1 << 63) - 1, (1 << 32) + 400])
def test_a_footer_of_more_rows_than_any_file_has_is_refused(lake: Lake, rows: int) -> None:
    """Both counts of the footer, of the file and of its row group, are forged."""
    path = label_path(lake, "bad-labels")
    pq.write_table(pa.table(label_rows(400, seed=1).to_arrow()), path, row_group_size=400)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    forged = content[footer:-8].replace(varint(400), varint(rows))
    assert forged.count(varint(rows)) >= 2
    path.write_bytes(content[:footer] + forged + len(forged).to_bytes(4, "little") + b"PAR1")
    begin = time.monotonic()
    row = audit(lake)
    assert (row.status, row.reason_code) == ("not_evaluable", "too_large"), row.reason
    assert time.monotonic() - begin < 60.0


@pytest.mark.parametrize(
    "place", ["weights.bin", "../eve/model.onnx", "/etc/passwd", "model.onnx", "a\x1b[2J", ""]
)
def test_onnx_files_beside_a_model_are_never_opened(place: str) -> None:
    outside = onnx.TensorProto(name="W", data_type=1, dims=list(WEIGHTS.dims), data_location=1)
    outside.external_data.add(key="location", value=place)
    outside.external_data.add(key="length", value=str(1 << 62))
    with pytest.raises(UnreadableModelError) as refused:
        describe_model(onnx_file([SCORES, ANSWER], weights=[outside]), format="onnx")
    assert "files beside it" in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PLAN", '{"seed": '),
        ("PLAN", "[" * 100_000),
        ("PLAN", '{"seed": 1, "seed": "x"}'),
        ("PLAN__SIGNIFICANCE", "1e999"),
        ("PLAN__SIGNIFICANCE", "nan"),
        ("MODELS", '[{"name": "m", "interface": "os.system"}]'),
        ("PUBLICATION", f'{{"statements": "s", "key": "{SECRET}", "epsilon": -1}}'),
        ("WEBHOOK__URL", f"http://user:{SECRET}@elsewhere.example/"),
        ("WEBHOOK", f'{{"url": "ftp://elsewhere.example", "secret": "{SECRET}"}}'),
    ],
)
def test_a_strange_value_of_the_environment_is_refused_without_its_secret(
    variable: str, value: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "privaudit.toml").write_text(SETTINGS, encoding="utf-8")
    load_settings(None)
    monkeypatch.setenv(f"PRIVAUDIT_{variable}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings(None)
    assert SECRET not in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_quotes_and_line_breaks_in_labels_end_no_metric() -> None:
    """Each sample of Prometheus' file is one line, whose one label is the name, as in chats."""
    lines = metrics_text([], dt.UTC, listed=NAMES).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert len(samples) == len(NAMES)
    pairs = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
    for name, line in zip(NAMES, samples, strict=True):
        found = re.fullmatch(r'privaudit_model_listed\{model="((?:[^"\\]|\\.)*)"\} 1\.0', line)
        assert found, line
        assert re.sub(r"\\.", lambda one: pairs[one[0]], found[1]) == without_markup(name)


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_a_models_name_is_refused_and_shown_as_text(lake: Lake, name: str) -> None:
    row = run_audit(lake, name, DAY, plan=PLAN, executor=InProcess()).audit
    assert row.status == "not_evaluable", row.reason
    assert not {"\x1b", "\u202e", "\n", "\x00"} & set(row.model + str(row.reason))


def test_every_models_page_lies_in_the_reports_folder() -> None:
    pages = page_names(NAMES)
    assert len(set(pages.values())) == len(NAMES)
    for page in pages.values():
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,120}", page), page
        assert page.strip(".")


STARTS = """
import multiprocessing
import sys

import workers

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print, args=("ran",))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def test_no_process_of_a_command_runs_modules_of_the_working_folder(tmp_path: pathlib.Path) -> None:
    """Before, a spawned child ran `multiprocessing.py` of the folder in which a command started."""
    script, folder = tmp_path / "command" / "starts.py", tmp_path / "shared"
    script.parent.mkdir()
    folder.mkdir()
    script.write_text(STARTS)
    for name in ("json", "multiprocessing", "pickle", "polars", "socket"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONSAFEPATH"}
    ended = subprocess.run([sys.executable, script], cwd=folder, env=environment, check=False)
    assert ended.returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_key_of_pages_is_not_taken_from_a_folder_of_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Another user may have put a link to a key that they know, or a pipe that nobody writes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "privaudit"
    folder.mkdir()
    (tmp_path / "known").write_bytes(b"k" * 32)
    (tmp_path / "known").chmod(0o600)
    (folder / "pages.key").symlink_to(tmp_path / "known")
    folder.chmod(0o700)
    assert state_key("pages") == b"k" * 32
    folder.chmod(mode)
    assert state_key("pages") is None
    (folder / "pages.key").unlink()
    os.mkfifo(folder / "pages.key", 0o600)
    assert state_key("pages") is None


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "answer",
    [DEEP, b'{"model_version": %s}' % DEEP, b'{"model_version": NaN}', b'{"model_version": [1]}',
     b'{"model_version": {"version": "\\ud800"}}',
     b'{"model_version": {"version": 1%s}}' % (b"0" * 5000)],
    ids=["deep", "deep-inside", "nan", "list", "half-a-character", "digits"],
)  # fmt: skip
def test_a_registrys_answer_that_is_none_ends_in_a_sentence(
    served: Registry, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """Before, some of these ended the audit with an unexpected error."""
    monkeypatch.setattr(served, "answer", lambda _path: (200, answer))
    assert "MLflow" in str(refused(ADDRESS))


@pytest.mark.parametrize("spelled", [b'"deletionV\\u0065ctor":{', b'"deletionVector"\t:\t{'])
def test_a_deletion_vector_is_found_however_a_log_spells_it(
    tmp_path: pathlib.Path, spelled: bytes
) -> None:
    """Before, its bytes were looked for: rows that the table had deleted took part."""
    table = tmp_path / "t"
    rows = pl.DataFrame({"day": [DAY] * 2, "x": range(2)})
    features = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(table), rows, configuration=features)
    place = TablePlace(table=str(table), day="day")
    assert len(find_day(place, DAY).files) == 1
    log = table / "_delta_log" / "00000000000000000000.json"
    vector = (
        b'"storageType":"u","pathOrInlineDv":"ab","offset":4,"sizeInBytes":40,"cardinality":1},'
    )
    log.write_bytes(log.read_bytes().replace(b'"add":{', b'"add":{' + spelled + vector))
    with pytest.raises(NotEvaluableError) as refusal:
        find_day(place, DAY)
    assert refusal.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values"),
    rest_slow(
        [
            ("late.x", "text"),
            ("Late", "parts"),
            ("late.list.element", "numbers"),
            ("late.x", "parts"),
            ("late.x", "numbers"),
            ("Late", "text"),
            ("Late", "numbers"),
            ("late.list.element", "text"),
            ("late.list.element", "parts"),
        ],
        always=3,
    ),
)
def test_a_column_beside_the_labels_is_no_part_of_them(lake: Lake, name: str, values: str) -> None:
    """Before, text in a column `late.x` made labels in `late` unreadable: `label_invalid`."""
    undisturbed = audit(lake)
    assert undisturbed.status == "evaluated"
    table = pq.read_table(label_path(lake, "bad-labels"))
    more = {"text": "x", "parts": {"late": "x"}, "numbers": 0.5}[values]
    table = table.append_column(name, pa.array([more] * len(table)))
    pq.write_table(table, label_path(lake, "bad-labels"), row_group_size=128)
    row = audit(lake)
    assert row.records == undisturbed.records, row.reason
    assert row.target_log_loss == undisturbed.target_log_loss

"""The eighth round, by strangers at what an audit writes and at its machine: what broke of 25."""

import datetime as dt
import logging
import os
import pathlib
import subprocess
import sys

import deltalake
import httpx
import polars as pl
import pyarrow as pa
import pytest
import typer

from flows.commands.options import parse_moment
from flows.failures import without_data
from flows.notify import prefect_context
from flows.notify.alerts import Alert, Event
from flows.notify.metrics import latest_records, metrics_text
from flows.notify.prefect_context import log_failure
from flows.report.pages import MARK, MODELS
from flows.report.site import write_report
from privcore.exceptions import TerminalError
from tests.support.warehouse import START, evaluated, failed, forged_version, put_rows
from workers import isolation
from workers.warehouse import sql
from workers.warehouse.delta import commit_times
from workers.warehouse.input_changes import input_changes
from workers.warehouse.sql import _connect, _guarded, query
from workers.warehouse.store import Warehouse

DAY = dt.date(2026, 4, 1)


def python(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    kept = {name: value for name, value in os.environ.items() if "POLARS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=kept | environment,
    )  # fmt: skip
    return done.stdout


def test_polars_sweeps_no_folder_that_another_user_made() -> None:
    """One in /var/tmp that led to a folder of ours had its numbered folders deleted."""
    told = python(
        "import os, sys, flows; print('polars' in sys.modules, os.environ['POLARS_OOC_SPILL_DIR'])"
    )
    assert told.split() == ["False", str(isolation.private_folder() / "polars")]


def test_polars_has_no_folder_where_another_user_took_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken() -> pathlib.Path:
        raise TerminalError("It belongs to another user.")

    monkeypatch.setattr(isolation, "private_folder", taken)
    assert not pathlib.Path(isolation._folder_of_polars()).parent.is_dir()


def test_polars_obeys_the_place_that_it_is_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "4194305").mkdir()  # of a process that cannot be: no number is as large
    python("import polars, time; time.sleep(0.3)", POLARS_OOC_SPILL_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_column_that_is_called_by_sql_is_a_column(tmp_path: pathlib.Path) -> None:
    """Its name went on as an expression, which read a file of the exporting person's into CSV."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2", "utf-8")
    read = f"(select content from read_text('{secret}'))"  # noqa: S608  # the attack
    names = ["/*", f"/*\", '') then 'x' end, {read} as \"leak\", $$", '*/*/, 1 as "z']
    forged = pa.table([pa.array(["v"]), pa.array(["v"]), pa.array([1])], names=names)
    with _connect() as connection:
        rows = connection.from_arrow(forged)
        assert rows.project(", ".join(_guarded(rows))).to_arrow_table() == forged


@pytest.mark.parametrize("name", ["rows.parquet", "_delta_log/_last_checkpoint"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_warehouse_waits_for_no_pipe_and_follows_no_link(
    stored: pathlib.Path, name: str, kind: str
) -> None:
    """All commands waited for a pipe, and so did the night; a link named labels as a table."""
    path = stored / "audits" / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(stored / "audits")
    with pytest.raises(TerminalError, match="is a link or no plain file"):
        Warehouse(str(stored)).current()
    with pytest.raises(TerminalError, match="is a link or no plain file"):
        Warehouse(str(stored)).commit(failed("good", DAY))


@pytest.mark.parametrize(
    "path", ["../../rows.parquet", "%2e%2e/rows.parquet", "../x://rows.parquet"]
)
def test_a_warehouse_reads_no_file_outside_of_its_table(stored: pathlib.Path, path: str) -> None:
    """Labels of the lake stood in exports, since their columns were joined to the table's."""
    add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}
    forged_version(stored, {"add": add | {"dataChange": True}})
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored)), "from audits")


def test_rows_that_readers_would_see_otherwise_are_refused(stored: pathlib.Path) -> None:
    """`show` left out a row by a deletion vector, and `sql` and exports had it."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    forged_version(stored, {"protocol": protocol})
    with pytest.raises(TerminalError, match="other reader features"):
        query(Warehouse(str(stored)), "from audits")


def test_a_column_of_another_kind_is_a_sentence(stored: pathlib.Path) -> None:
    """Alerts, report and commits ended with errors of three libraries."""
    table = deltalake.DeltaTable(str(stored / "audits"))
    rows = table.to_pyarrow_table()
    changed = rows.set_column(rows.column_names.index("verdict"), "verdict", pa.array([5]))
    deltalake.write_deltalake(table, changed, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TerminalError, match="its column verdict holds"):
        Warehouse(str(stored)).commit(failed("good", DAY))


@pytest.mark.parametrize("moment", [9 * 10**18, -(10**18)])
def test_a_commit_of_no_time_is_a_sentence(stored: pathlib.Path, moment: int) -> None:
    """Where the log began with it, `--as-of --by-log` ended with an unexpected error."""
    forged_version(stored, {"commitInfo": {"timestamp": moment}})
    with pytest.raises(TerminalError, match="holds what no commit does"):
        commit_times(str(stored), "audits")


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_an_export_follows_nothing_that_lies_in_its_folder(
    stored: pathlib.Path, tmp_path: pathlib.Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name of an unfinished file a link led to another one, and a pipe was waited for."""
    monkeypatch.setattr(sql, "RELATIONS", ("audits",))
    mine, folder = tmp_path / "mine", tmp_path / "exports"
    mine.write_text("precious", "utf-8")
    folder.mkdir()
    os.mkfifo(folder / ".audits.csv") if kind == "pipe" else (folder / ".audits.csv").symlink_to(
        mine
    )
    (file,) = sql.export(Warehouse(str(stored)), folder, kind="csv")
    assert "good" in file.read_text("utf-8")
    assert mine.read_text("utf-8") == "precious"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "http_proxy"])
@pytest.mark.parametrize("said", ["", "intern.example"])
def test_what_is_sent_to_this_machine_passes_no_proxy(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """Alerts with figures went to a company's proxy, not encrypted."""
    monkeypatch.setenv(name, "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", said)
    monkeypatch.setenv("no_proxy", "")
    isolation.keep_private()
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            chosen = client._transport_for_url(httpx.URL(f"http://{host}:9/hook"))
            assert chosen is client._transport
        elsewhere = client._transport_for_url(httpx.URL("http://hooks.example/"))
        assert elsewhere is not client._transport


@pytest.mark.parametrize("day", [dt.date.min, dt.date.max])
@pytest.mark.parametrize("recorded", [START, dt.datetime(9999, 12, 31, tzinfo=dt.UTC)])
def test_a_forged_day_ends_no_metrics_and_no_report(
    tmp_path: pathlib.Path, day: dt.date, recorded: dt.datetime
) -> None:
    """Neither was written for any model."""
    warehouse = Warehouse(str(tmp_path))
    forged = evaluated("good", day, recorded_at=recorded, target_sha256="0" * 64)
    put_rows(warehouse, [evaluated("good", DAY), forged])
    found = latest_records(warehouse, ["good"], lambda _, audits: audits.with_columns(
        standing=pl.lit(None, pl.String), epsilon_standing=pl.lit(None, pl.Float64)
    ))  # fmt: skip
    assert found[0].day == (DAY if day == dt.date.min or recorded == START else day)
    assert "day_end_seconds" in metrics_text(found, dt.timezone(dt.timedelta(hours=14)))
    assert input_changes(warehouse, warehouse.current()) == {}


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_moment_that_is_none_in_utc_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time"):
        parse_moment(text)


def test_prefects_pages_quote_no_label(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A library's words about a label stood in Prefect's log, with the trace, and in its states."""
    shown = logging.getLogger("test of a run's log")
    monkeypatch.setattr(prefect_context, "in_prefect", lambda: True)
    monkeypatch.setattr(prefect_context, "run_log", lambda: shown)
    error = ValueError("cannot convert 'HIV+'")
    log_failure(error, "The audit of %s failed.", "good")
    assert "HIV+" not in without_data(error)
    (told, _) = caplog.records
    assert (told.name, told.exc_info) == (shown.name, None)
    assert told.getMessage() == (
        "The audit of good failed. ValueError: see the worker's standard error."
    )
    assert "No such file" in without_data(FileNotFoundError(2, "No such file", "report"))


def test_no_field_of_an_alert_calls_anybody() -> None:
    """The id of an alert about a total holds a unit, in the words of its owner."""
    named = "flights <!channel> [Sign in](https://evil.example) \x1b[2J"
    alert = Alert(Event.TOTAL_EXCEEDED, "good", DAY, "A total.", "Why.", (), None, audit_id=named)
    assert not set("<>\x1b") & set(str(alert.payload()["audit_id"]))
    assert "](" not in str(alert.payload()["audit_id"])


def test_a_report_is_not_written_behind_a_link(tmp_path: pathlib.Path) -> None:
    """Pages were written into the folder that it led to, and others' taken away there."""
    other, report = tmp_path / "other", tmp_path / "report"
    other.mkdir()
    report.mkdir()
    (other / "page.html").write_text(MARK, "utf-8")
    (report / MODELS).symlink_to(other)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(evaluated("ads", DAY))
    write_report(warehouse, report)
    assert [file.name for file in other.iterdir()] == ["page.html"]
    assert list((report / MODELS).iterdir())

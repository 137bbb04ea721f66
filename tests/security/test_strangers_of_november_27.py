"""The strangers' round of 2026-11-27: what broke of the fifty attacks that were written down."""

import datetime as dt
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

import duckdb
import polars as pl
import pytest
from rich.console import Console

import workers.release.table
from flows.commands.printing import as_csv
from flows.commands.stored import stored_audit
from flows.commands.terminal_tables import frame_table
from flows.notify.alerts import alert_of
from flows.report.pages import MARK
from flows.report.site import write_report
from flows.settings import load_settings
from privcore.exceptions import InvalidInputError, TerminalError
from tests.support.lake import write_settings
from tests.support.warehouse import evaluated, put_rows
from workers import contained
from workers.contained import Contained, _read
from workers.contained_child import WithBytes
from workers.lake import limits, model_sandbox
from workers.lake.layout import open_filesystem
from workers.release.table import as_table, read_frame
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.versions import METHOD_VERSION
from workers.warehouse.delta import commit_times
from workers.warehouse.orphans import _read_ids
from workers.warehouse.serving_decision import file_sha256
from workers.warehouse.sql import _connect, _guarded
from workers.warehouse.store import Warehouse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAY = dt.date(2026, 4, 1)
CODES = "\x1b[2J\u202e\nforged"


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder with settings and no lake, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        {"table": "s3://bucket/t?scheme=http&endpoint_override=127.0.0.1:9"},
        {"table": "/etc/mine.parquet"},
        {"table": "t", "database": "bank", "query": "select pg_sleep($1)", "record": "id"},
        {"table": "/rows", "earlier": [{"table": "s3://other", "column": "e"}], "record": "id"},
        {"table": "t", "catalog": "theirs"},
    ],
)
def test_a_record_sends_no_login_where_no_settings_say(
    place: pathlib.Path, source: dict[str, str]
) -> None:
    """A row that was forged had storage's keys sign requests to a host of its writer's choice."""
    tables = ScoreTables.model_validate({"label": "y", "target": "p", "proxy": "q", **source})
    given = SuppliedScores(tables).to_json()
    forged = evaluated("good", DAY, source=given, method_version=METHOD_VERSION)
    put_rows(Warehouse(str(place / "warehouse")), [forged])
    refusal = "which no model of the settings names"
    with pytest.raises(TerminalError, match=refusal), stored_audit(forged.audit.audit_id, None):
        pass


@pytest.mark.parametrize("folder", ["/etc", "s3://b/x?endpoint_override=h", "mlflow-artifacts:/x"])
def test_a_record_names_no_model_file_elsewhere(place: pathlib.Path, folder: str) -> None:
    file = {"day": str(DAY), "folder": folder, "name": "m.cbm", "format": "catboost"}
    source = json.dumps({"labels": {}, "privacy": None, "target": file})
    forged = evaluated("good", DAY, source=source, method_version=METHOD_VERSION)
    put_rows(Warehouse(str(place / "warehouse")), [forged])
    refusal = "that it read the folder"
    with pytest.raises(TerminalError, match=refusal), stored_audit(forged.audit.audit_id, None):
        pass


def test_an_answer_of_many_empty_lists_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 MiB of them took 6.5 GB of the driver."""
    assert contained._MOST_VALUES <= 1 << 23
    monkeypatch.setattr(contained, "_MOST_VALUES", 1_000)
    header = b'{"kind":"value","value":[' + b"[]," * 1_000 + b"[]]}"
    assert _read(header, b"") is None
    assert _read(header.replace(b"[],", b"", 100), b"") is not None
    said = _read(json.dumps({"kind": "raised", "why": "x" * 10_000}).encode(), b"")
    assert said is not None
    assert len(said["why"]) == 300


def test_a_reader_makes_no_more_of_a_file_than_a_model_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = {"kinds": ["numeric"], "names": None, "classes": None, "class_count": 2}
    monkeypatch.setattr(model_sandbox, "_contained", lambda _: lambda _: WithBytes(answer, b"123"))
    assert model_sandbox.describe_model(b"a model").content == b"123"
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", 2)
    with pytest.raises(model_sandbox.UnreadableModelError, match="reader made more than the 2 "):
        model_sandbox.describe_model(b"a model")


@pytest.mark.slow
def test_lightgbm_quotes_no_file_on_the_output_of_a_command() -> None:
    code = (
        "import lightgbm, numpy as np\n"
        "from workers.lake.formats import lightgbm as form\n"
        "rows = np.random.default_rng(0).normal(size=(300, 2))\n"
        "model = lightgbm.train({'objective': 'binary', 'verbosity': -1},\n"
        "    lightgbm.Dataset(rows, rows[:, 0] > 0), 2)\n"
        "text = model.model_to_string()\n"
        "form.load(text.replace('parameters:', 'parameters:\\n[forged: 1]').encode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_words_of_others_call_nobody_in_a_chat(place: pathlib.Path) -> None:
    said = "The unit '@everyone' or '[Sign in](https://evil.example)' is none.\n\u202eforged"
    row = evaluated("good", DAY, verdict="violated", reason=said).audit
    alert = alert_of(row, load_settings())
    assert alert is not None
    reason = alert.payload()["reason"]
    assert "@" not in reason
    assert "](" not in reason
    assert "Sign in] (https" in reason
    assert reason.isprintable()
    assert place.exists()


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a?b#c%41"])
def test_a_study_of_any_name_costs_no_report(place: pathlib.Path, name: bytes) -> None:
    """A name that is no UTF-8 left the report unwritten, for every model."""
    folder = place / "report" / "studies" / os.fsdecode(name)
    folder.mkdir(parents=True)
    title = f"<html>{MARK}<title>All \u202emodels\x1b[2J</title></html>"
    (folder / "index.html").write_text(title)
    page = write_report(Warehouse(str(place / "warehouse")), place / "report").read_text()
    assert f'href="studies/{urllib.parse.quote(name)}/index.html"' in page
    assert r"All \u202emodels\u001b[2J" in page


@pytest.mark.parametrize("commit", ["[" * 100_000, "5", '{"commitInfo": {}}', '{"commitInfo": 1}'])
def test_a_commit_that_is_none_is_said_to_be_so(place: pathlib.Path, commit: str) -> None:
    log = place / "audits" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(commit)
    with pytest.raises(TerminalError, match="holds what no commit does"):
        commit_times(str(place), "audits")


def test_a_commit_that_is_a_pipe_is_not_waited_for(place: pathlib.Path) -> None:
    log = place / "audits" / "_delta_log"
    log.mkdir(parents=True)
    os.mkfifo(log / f"{0:020d}.json")
    assert commit_times(str(place), "audits") == []


def test_ids_that_no_audit_has_are_left_out(tmp_path: pathlib.Path) -> None:
    """7 kB that unpacked to 60 GB of ids took two minutes."""
    pl.DataFrame({"audit_id": ["a" * 32, "x" * 20_000]}).write_parquet(tmp_path / "a.parquet")
    assert _read_ids(open_filesystem(str(tmp_path)), "a.parquet") == {"a" * 32}


def test_no_cell_is_a_formula_where_semicolons_separate_cells() -> None:
    frame = pl.DataFrame({"=1+1": ["a;=HYPERLINK(1)", "a; -b", None], "n": [1, 2, 3]})
    assert as_csv(frame) == "'=1+1,n\na;'=HYPERLINK(1),1\na; -b,2\n,3\n"
    rows = duckdb.sql("select 'a;=HYPERLINK(1)' as x, 1 as n")
    assert rows.project(", ".join(_guarded(rows))).fetchall() == [("a;'=HYPERLINK(1)", 1)]


def test_names_of_columns_are_no_markup() -> None:
    out = Console(width=200)
    with out.capture() as captured:
        out.print(frame_table(pl.DataFrame({"[red]x[/bold]": [1], CODES: [2]})))
    assert r"[red]x[/bold]  \u001b[2J\u202e\u000aforged" in captured.get()


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_what_is_no_plain_file_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for read in (file_sha256,):
        with pytest.raises(TerminalError, match=r"no plain file|cannot be read"):
            read(pathlib.Path(place))


def test_a_table_to_attack_is_read_within_bounds(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """7 kB took 4.9 GB of the command's own memory, and a pipe was waited for."""
    small = Contained("workers.release.table:unpack", seconds=20, memory=1 << 28, fork=True)
    monkeypatch.setattr(workers.release.table, "_unpack", small)
    words = pl.DataFrame({"x": pl.repeat("x" * 3_000, 200_000, eager=True)})
    words.write_parquet(tmp_path / "bomb.parquet")
    os.mkfifo(tmp_path / "pipe.csv")
    for name, refusal in (("bomb.parquet", "its reader"), ("pipe.csv", "no plain file")):
        with pytest.raises(InvalidInputError, match=refusal):
            read_frame(str(tmp_path / name))
    monkeypatch.setattr(limits, "RELEASE_TABLE_BYTES", 10)
    with pytest.raises(InvalidInputError, match="more than the 10 bytes"):
        read_frame(str(tmp_path / "bomb.parquet"))


def test_a_long_word_gives_no_row_its_room() -> None:
    """Each row took as many bytes as four times the longest word has letters."""
    words = pl.Series(["a", "b"] * 50_000 + ["x" * 1_000_000])
    table = as_table(pl.DataFrame({"x": words}))
    assert table.cells.max() == 2


def test_what_fits_in_no_memory_goes_to_a_folder_of_its_own() -> None:
    """It went to .tmp of the working folder, which another user may have made."""
    with _connect() as connection:
        asked = connection.execute("select current_setting('temp_directory')").fetchone()
        assert asked is not None
        assert pathlib.Path(asked[0]).is_absolute()
        assert pathlib.Path(asked[0]).stat().st_mode & 0o077 == 0

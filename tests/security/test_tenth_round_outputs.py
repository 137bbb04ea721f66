"""The tenth round, by strangers at what an audit writes and at its machine: what broke of 25."""

import hashlib
import io
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from flows import cli
from flows.cli import app
from flows.commands.terminal_tables import audits_table, frame_table
from flows.lasting_output import LastingOutput
from flows.notify.alerts import Alert, Event
from flows.report import templating
from flows.run.own_run import asked_by
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, write_settings
from tests.support.tiers import tiered
from tests.support.warehouse import evaluated, put_rows
from workers import executors
from workers.lake.layout import Lake
from workers.plain_text import plain_text
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

_FIGURES = {
    "epsilon_declared": 0.5, "delta_declared": 0.0, "verdict": "violated", "epsilon_paper": None,
    "epsilon_ceiling": None, "control_epsilon_lower": None,
}  # fmt: skip
ROOT = pathlib.Path(__file__).parents[2]
PRIVAUDIT = str(pathlib.Path(sys.executable).with_name("privaudit"))


def _without_reader() -> int:
    read, write = os.pipe()
    os.close(read)
    return write


def _on_a_full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("optional", [False, True])
def test_words_without_a_reader_go_nowhere(*, optional: bool) -> None:
    with os.fdopen(_without_reader(), "w", buffering=1, encoding="utf-8") as stream:
        output = LastingOutput(stream, optional=optional)
        for _ in range(3):
            assert output.write("a line\n") == 7
            output.flush()
        assert not output.isatty()


def test_a_result_that_a_full_disk_does_not_take_is_an_error() -> None:
    stream = os.fdopen(_on_a_full_disk(), "w", buffering=1, encoding="utf-8")
    LastingOutput(stream, optional=True).write("a line\n")
    with pytest.raises(OSError, match="No space left"):
        LastingOutput(stream).flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@pytest.mark.parametrize("verdict", ["consistent", "violated"])
@pytest.mark.parametrize(
    "ends", tiered(["2>&1 | true", "<&- >&- 2>&-", "| true", ">&-", "2>/dev/full"], slow=2)
)
def test_no_reader_decides_what_a_gate_answers(
    tmp_path: pathlib.Path, verdict: str, ends: str
) -> None:
    """A file that fails was an error, and so was one that passes: `| head -1` ended the gate."""
    content = b"a model"
    (tmp_path / "model.cbm").write_bytes(content)
    row = evaluated(
        "ads", DAY, verdict=verdict, target_sha256=hashlib.sha256(content).hexdigest(),
        epsilon_ceiling=3.0, epsilon_detectable=0.4,
    )  # fmt: skip
    put_rows(Warehouse(str(tmp_path / "warehouse")), [row])
    environment = os.environ | {"PRIVAUDIT_CONFIG": str(write_settings(tmp_path, ["ads"]))}
    command = f"{PRIVAUDIT} gate --sha256 model.cbm {ends}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, check=False, timeout=120,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == {"consistent": 0, "violated": 1}[verdict]


@pytest.mark.slow
@pytest.mark.parametrize("errors", [_without_reader, _on_a_full_disk])
def test_who_ends_a_log_ends_no_audit(
    tmp_path: pathlib.Path, lake: Lake, errors: Callable[[], int]
) -> None:
    """Each audit of a night was an error: its progress could not be printed."""
    assert lake.uri == str(tmp_path / "lake")
    settings = write_settings(tmp_path, ["good", "bad"])
    descriptor = errors()
    night = subprocess.run(
        [PRIVAUDIT, "night", "--day", str(DAY)],
        cwd=tmp_path,
        env=os.environ | {"PRIVAUDIT_CONFIG": str(settings)},
        stdout=subprocess.DEVNULL,
        stderr=descriptor,
        check=False,
        timeout=300,
    )
    os.close(descriptor)
    assert night.returncode in {0, 2}
    rows = Warehouse(str(tmp_path / "warehouse")).current()
    assert rows["status"].to_list() == ["evaluated", "evaluated"]


def test_no_file_of_an_earlier_gate_says_pass(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that ended early left yesterday's files, which build servers read all the same."""
    monkeypatch.chdir(tmp_path)
    kept = {"gate.xml": "<testsuites/>", "gate.md": "**pass**"}
    for name, content in kept.items():
        pathlib.Path(name).write_text(content, "utf-8")
    given = ["--target", "new.ubj", "--proxy", "old.ubj", "--table", "rows.parquet"]
    files = ["--junit", "gate.xml", "--summary", "gate.md"]
    ended = CliRunner().invoke(app, ["gate", *given, "--declared", "2", *files])
    assert isinstance(ended.exception, TerminalError)
    suites = ET.parse("gate.xml").getroot()  # noqa: S314  # our own
    assert (suites.get("failures"), suites.get("errors")) == ("0", "1")
    (error,) = suites.iter("error")
    assert error.get("message") == "error: The gate ended before it came to an answer."
    assert "**error**" in pathlib.Path("gate.md").read_text("utf-8")


def test_a_record_that_was_written_before_the_night_is_told(warehouse: Warehouse) -> None:
    """Identifiers can be known before: the pages kept the forged `consistent` of that night."""
    honest = [evaluated(model, DAY, verdict="violated") for model in ("ads", "other")]
    forged = honest[0].audit.model_copy(update={"verdict": "consistent"})
    warehouse.commit(honest[0].model_copy(update={"audit": forged}))
    refused, new = warehouse.commit_all(honest)
    assert "came to violated, but the warehouse has a record of that audit" in str(refused)
    assert new is True
    assert warehouse.commit_all(honest[1:]) == (False,)
    with pytest.raises(TerminalError, match="which says consistent"):
        warehouse.commit(honest[0])
    # An audit of before there were doubts is the same audit.
    doubtful = honest[0].audit.model_copy(update={"verdict": "doubtful"})
    assert not warehouse.commit(honest[0].model_copy(update={"audit": doubtful}))


@pytest.mark.parametrize("name", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_who_asks_for_an_audit_is_the_account(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An audit that was asked for under a rival's name stood in the record as the rival's."""
    monkeypatch.setenv(name, "rival")
    assert asked_by() == f"user {pwd.getpwuid(os.getuid()).pw_name}"
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert asked_by() == "user 4000000000"


def test_letters_that_look_like_latin_ones_are_seen_between_these() -> None:
    """A model that said `consistent` looked as the violated one beside it did."""
    assert plain_text("del\u0430ys-broken") == r"del\u0430ys-broken"
    assert plain_text("\u039fCR") == r"\u039fCR"
    for honest in ("модель-v2", "Пользователь id", "μs", "ΔT", "β_rate", "Straße", "naïve", "数x"):
        assert plain_text(honest) == honest


def test_figures_after_a_hebrew_or_arabic_name_keep_their_places() -> None:
    """A terminal that orders by Unicode's rules showed the declaration where the bound stands."""
    for name in ("שלום", "نموذج", "שלום עולם"):
        row = {"day": DAY, "model": name, "secret": "label", "epsilon_lower": 1.61, "declared": 0.5}
        for table in (
            audits_table(pl.DataFrame([row | _FIGURES]), width=200),
            frame_table(pl.DataFrame([row])),
        ):
            out = Console(width=200, file=io.StringIO())
            out.print(table)
            assert f"{name}\u200e" in out.file.getvalue()  # type: ignore[attr-defined]
    shown = templating.environment().from_string("<p>{{ name }} 1.61 0.5</p>")
    assert shown.render(name="<שלום>") == "<p>&lt;שלום\u200e&gt; 1.61 0.5</p>"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("see www.evil.example/fix", "see www. evil.example/fix"),
        ("evil.com/login", "evil. com/login"),
        ("sub.evil.co", "sub.evil. co"),
        (r"\\evil\share", r"\\ evil\share"),
        ("file:///etc/passwd", "file:// /etc/passwd"),
        ("ms-word:ofe", "ms-word: ofe"),
        ("tel:+1234", "tel: +1234"),
    ],
)
def test_no_chat_makes_a_link_of_words(words: str, shown: str) -> None:
    told = alert(reason=words).payload()
    assert told["reason"] == shown


def test_honest_words_of_alerts_stay_whole() -> None:
    for words in (
        "s3://bucket/rows", "docs/how-to/violated.md", "model.cbm: 0.5 at 12:30", "/srv/lake.com/x",
        "data: 5 rows", "0.25 of 1,000", "ads.ctr",
    ):  # fmt: skip
        assert alert(reason=words).payload()["reason"] == words
    assert alert(model="churn.de").payload()["model"] == "churn.de"


def alert(**changes: str) -> Alert:
    """Return an alert about a violation."""
    told = {"model": "ads", "subject": "violated", "reason": "Proved."} | changes
    return Alert(event=Event.VIOLATED, day=DAY, notify=(), report=None, **told)


def test_no_page_installs_from_an_index_by_a_name_that_is_not_ours() -> None:
    """The public index has no package of this name, so a stranger could register it."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for folder in (ROOT / "deploy", ROOT / "infra"):
        pages += [page for page in folder.rglob("*") if page.suffix != ".pyc"]
    told = re.compile(r"(?:pip|uv add|uvx|pipx|tool) (?:install |run )?['\"]?privaudit\b")
    found = [str(page) for page in pages if page.is_file() and told.search(page.read_text("utf-8"))]
    assert found == []


def test_a_session_whose_driver_runs_is_kept_however_old_it_looks(tmp_path: pathlib.Path) -> None:
    """A clock that jumped a week ahead, and each run of over a week, lost the files of its Ray."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    name = "session_2026-11-01_00-00-00_000000_"
    for process in (os.getpid(), ended.pid):
        (tmp_path / f"{name}{process}").mkdir()
        os.utime(tmp_path / f"{name}{process}", (0, 0))
    executors._remove_old_sessions(tmp_path)
    assert [session.name for session in tmp_path.iterdir()] == [f"{name}{os.getpid()}"]


def test_a_dashboard_without_metrics_is_not_green() -> None:
    """Each of its four counts was a green nought where Prometheus had no result at all."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "privaudit.json").read_text("utf-8"))
    counts = [panel for panel in dashboard["panels"] if panel["type"] == "stat"]
    assert len(counts) == 4
    for panel in counts:
        shown = panel["fieldConfig"]["defaults"]
        assert shown["noValue"] == "no data"
        (mapping,) = shown["mappings"]
        assert (mapping["options"]["match"], mapping["options"]["result"]["color"]) == (
            "null+nan", "orange",
        )  # fmt: skip
        for query in panel["targets"]:
            assert "vector(" not in query["expr"]
            assert query["expr"].endswith('or 0 * count(privaudit_verdict{model=~"$model"})')


def test_a_whole_identifier_names_one_audit_whatever_else_begins_so(warehouse: Warehouse) -> None:
    """With a longer one beside it no audit could be verified: `give more digits`, and none were."""
    honest = evaluated("ads", DAY)
    known = honest.audit.audit_id
    forged = honest.audit.model_copy(update={"audit_id": f"{known}0"})
    put_rows(warehouse, [honest, AuditRecord(audit=forged)])
    assert warehouse.whole_id(known) == known
    with pytest.raises(TerminalError, match="2 audit ids begin with"):
        warehouse.whole_id(known[:8])


def test_a_traceback_holds_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With --debug the words of an error stood there as they were, with line breaks and codes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["privaudit", "--debug"])
        cli._print_error(ValueError("column \x1b[31mlate\n::error::##vso[task.x]"))
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "##vso" not in said
    assert not [line for line in said.splitlines() if line.strip().startswith("::")]

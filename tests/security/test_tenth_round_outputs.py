"""The tenth round, by strangers at what an audit writes and at its machine: what broke of 25."""

import hashlib
import os
import pathlib
import pwd
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.lasting_output import LastingOutput
from flows.ledger import report_to_watcher, reporting
from flows.run.own_run import asked_by
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, write_settings
from tests.support.tiers import tiered
from tests.support.warehouse import evaluated, put_rows
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

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


@pytest.mark.parametrize("name", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_who_asks_for_an_audit_is_the_account(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An audit that was asked for under a rival's name stood in the record as the rival's."""
    monkeypatch.setenv(name, "rival")
    assert asked_by() == f"user {pwd.getpwuid(os.getuid()).pw_name}"
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert asked_by() == "user 4000000000"


def test_a_watcher_that_was_killed_makes_no_audit_an_error() -> None:
    """Each audit under way was an error, since the watcher's pipe had no reader."""
    write = _without_reader()
    with reporting(write):
        report_to_watcher(committed=("ads", str(DAY)))
    os.close(write)


@pytest.mark.slow
def test_a_command_ends_with_its_watcher(tmp_path: pathlib.Path) -> None:
    """A build that was cancelled by SIGKILL left the command running, in a session of its own."""
    command = [PRIVAUDIT, "study", "randomized-response", "--scale", "0.02", "--output", "rr"]
    begun = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    cells, end = tmp_path / "rr" / "cells", time.monotonic() + 120.0
    while not cells.exists() and time.monotonic() < end:
        time.sleep(0.1)
    children = pathlib.Path(f"/proc/{begun.pid}/task/{begun.pid}/children").read_text("ascii")
    child = pathlib.Path("/proc") / children.split()[0]
    begun.kill()
    begun.wait(timeout=60)
    while child.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not child.exists()

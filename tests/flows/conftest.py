"""The command line, called in this process, and a folder with settings and a lake to call it in."""

import functools
import logging
import shutil
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import typer.main

from flows import cli
from flows.settings import load_settings
from tests.support.lake import DAY, write_settings
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse


class Answer(NamedTuple):
    """A finished command: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def words(self):
        """All that was printed, in one line."""
        return " ".join((self.out + self.err).split())


Command = Callable[..., Answer]

_COMMANDS = typer.main.get_command(cli.app)  # what a process makes once, for its one command


@pytest.fixture
def privaudit(monkeypatch, capsys):
    """Return the command line, called in this process as `main` of the installed script."""
    monkeypatch.setenv("COLUMNS", "40")  # of no terminal: nothing may be cut or wrapped
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(typer.main, "get_command", lambda _: _COMMANDS)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["privaudit", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        code = end.value.code
        return Answer(0 if code is None else int(code), captured.out, captured.err)

    return call


@pytest.fixture
def instead_of_audits(monkeypatch):
    """Return what replaces the pass over a day's labels, as one that fails, in all flows."""
    return functools.partial(monkeypatch.setattr, "flows.run.audit_requests.run_batches")


@pytest.fixture
def in_a_run(monkeypatch):
    """Have Prefect carry what is done, and return the run's log."""
    log = logging.getLogger("test of a run's log")
    for name, answer in (("in_prefect", True), ("run_log", log)):
        monkeypatch.setattr(f"flows.notify.prefect_context.{name}", lambda answer=answer: answer)
    return log


@pytest.fixture(scope="session")
def _audited(template, tmp_path_factory):
    """Return a folder with settings, a lake and a committed audit, to be copied."""
    place = tmp_path_factory.mktemp("audited")
    shutil.copytree(template.uri, place / "lake")
    settings = load_settings(write_settings(place, ["good"]))
    warehouse = Warehouse(settings.warehouse)
    record = run_audit(
        Lake(settings.lake),
        "good",
        DAY,
        plan=settings.plan_of("good"),
        executor=InProcess(),
        digest_key=warehouse.digest_key(),
    )
    warehouse.commit([record])
    return place


@pytest.fixture
def audited(_audited, tmp_path, monkeypatch):
    """Return a folder with settings, a lake and a committed audit, and stand in it."""
    shutil.copytree(_audited, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(
    lake,  # noqa: ARG001
    tmp_path,
    monkeypatch,
    in_process,  # noqa: ARG001
):
    """Return a folder with settings and a lake, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    return tmp_path

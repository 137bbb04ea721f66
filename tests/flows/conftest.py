"""The command line, called in this process, and a folder with settings and a lake to call it in."""

import pathlib
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import typer.main

from flows import cli
from tests.support.lake import write_settings
from workers.lake.layout import Lake


class Answer(NamedTuple):
    """A finished command: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """All that was printed, in one line."""
        return " ".join((self.out + self.err).split())


Command = Callable[..., Answer]

_COMMANDS = typer.main.get_command(cli.app)  # what a process makes once, for its one command


@pytest.fixture
def privaudit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command line, called in this process as `main` of the installed script."""
    monkeypatch.setenv("COLUMNS", "40")  # of no terminal: nothing may be cut or wrapped
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(typer.main, "get_command", lambda _: _COMMANDS)

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["privaudit", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        code = end.value.code
        return Answer(0 if code is None else int(code), captured.out, captured.err)

    return call


@pytest.fixture
def folder(
    lake: Lake,  # noqa: ARG001
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    in_process: None,  # noqa: ARG001
) -> pathlib.Path:
    """Return a folder with settings and a lake, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    return tmp_path

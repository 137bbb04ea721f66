"""Watched commands: which they are, how they end, and their terminal."""

import ast
import importlib.util
import inspect
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
import typer.main

from flows import supervisor
from flows.cli import app

_PRIVAUDIT = str(pathlib.Path(sys.executable).with_name("privaudit"))
_STARTERS = {"workers.executors.on_ray", "flows.run.choose_executor.choose_executor"}
_WITHOUT_RAY = {
    "audits": "it lists; of its module, `run`, `night` and `backfill` audit",
    "explain": "it reads a record, as `verify` begins",
    "init": "of its module, `check` asks Ray",
    "notify": "of its module, `check` asks Ray",
    "overdue": "of its module, `check` asks Ray",
}


def test_every_command_that_may_use_ray_is_watched() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    using = set()
    for name, command in commands.items():
        under = getattr(command, "commands", {"": command}).values()
        modules = {inspect.unwrap(each.callback).__module__ for each in under}
        if any(_starts_ray(module) for module in modules):
            using.add(name)
    assert using - set(_WITHOUT_RAY) == supervisor.WATCHED - {"publish"}


def _starts_ray(module: str) -> bool:
    """Return whether a module of `flows`, or one that it imports, starts Ray or joins one."""
    left, seen = [module], {module}
    while left:
        for name in _imported(left.pop()):
            if name in _STARTERS:
                return True
            if name.startswith("flows.") and name not in seen:
                seen.add(name)
                left.append(name)
    return False


def _imported(module: str) -> set[str]:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a name within a module
        return set()
    if found is None or found.origin is None:
        return set()
    tree = ast.parse(pathlib.Path(found.origin).read_text(encoding="utf-8"))
    froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module]
    return {str(each.module) for each in froms} | {
        f"{each.module}.{name.name}" for each in froms for name in each.names
    }


@pytest.mark.slow
def test_a_study_that_is_interrupted_goes_on(tmp_path: pathlib.Path) -> None:
    command = [_PRIVAUDIT, "study", "randomized-response", "--scale", "0.002", "--output", "rr"]
    begun = _begin(command, tmp_path)
    cells = tmp_path / "rr" / "cells"
    _wait(begun, lambda: len(list(cells.glob("*.json"))) > 0)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does
    _, said = begun.communicate(timeout=280)
    assert begun.returncode == 130, said
    assert "privaudit: interrupted. Run the same command again to go on: what was made" in said
    assert "Committed" not in said
    assert "Traceback" not in said
    kept = len(list(cells.glob("*.json")))
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert f"{kept} of " in done.stdout
    assert "parts were finished by an earlier run" in done.stdout


@pytest.mark.slow
def test_a_study_whose_process_ends_without_a_word_is_an_error_with_a_sentence(
    tmp_path: pathlib.Path,
) -> None:
    """Ray ends its driver with exit code 1, which means `violated` or `fail` elsewhere."""
    command = [_PRIVAUDIT, "study", "randomized-response", "--scale", "0.02", "--output", "rr"]
    begun = _begin(command, tmp_path)
    _wait(begun, (tmp_path / "rr" / "cells").exists)
    for process in _below(begun.pid):
        if "raylet/raylet" in _command(process):
            os.kill(process, signal.SIGKILL)
    _, said = begun.communicate(timeout=280)
    assert begun.returncode == 3, said
    assert "privaudit: The process that carried the command was ended" in said
    assert "privaudit: Run the same command again to go on: what was made" in said
    assert _below(begun.pid) == []


@pytest.fixture
def asked(tmp_path: pathlib.Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`attach` at a terminal, which asks for a column; and the terminal's other end."""
    rows = {"a": [0.1, 0.2] * 50, "b": [0.3, 0.4] * 50, "c": [1, 0] * 50, "d": [0, 1] * 50}
    pl.DataFrame(rows).write_parquet(tmp_path / "table.parquet")
    terminal, theirs = pty.openpty()
    begun = subprocess.Popen(
        [_PRIVAUDIT, "attach", "table.parquet", "--config", "a.toml"],
        cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    yield begun, terminal
    begun.kill()
    os.close(terminal)


def test_an_answer_and_an_interrupt_at_a_prompt_reach_a_watched_command(
    asked: tuple[subprocess.Popen[bytes], int],
) -> None:
    begun, terminal = asked
    assert "day = " in _read(terminal, "day = ")
    os.write(terminal, b"when\n")
    assert "label = " in _read(terminal, "label = ")
    begun.send_signal(signal.SIGINT)  # to the foreground's process, as a terminal does
    assert begun.wait(timeout=60) == 130
    assert "privaudit: interrupted." in _read(terminal, "interrupted.")


def test_a_pause_at_a_prompt_pauses_the_watched_command_too(
    asked: tuple[subprocess.Popen[bytes], int],
) -> None:
    """Else two would read the same terminal: the shell, and a command in the background."""
    begun, terminal = asked
    _read(terminal, "day = ")
    both = [begun.pid, *_below(begun.pid)[:1]]
    begun.send_signal(signal.SIGTSTP)
    _wait(begun, lambda: [_state(each) for each in both] == ["T", "T"])
    begun.send_signal(signal.SIGCONT)
    _wait(begun, lambda: "T" not in [_state(each) for each in both])
    os.write(terminal, b"when\n")
    assert "label = " in _read(terminal, "label = ")
    begun.send_signal(signal.SIGTERM)
    assert begun.wait(timeout=60) == 143


def _begin(command: list[str], folder: pathlib.Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def _wait(begun: subprocess.Popen[Any], until: Callable[[], bool]) -> None:
    end = time.monotonic() + 120.0
    while not until():
        assert begun.poll() is None, begun.returncode
        assert time.monotonic() < end
        time.sleep(0.05)


def _below(process: int) -> list[int]:
    """Return the processes below one, the nearest first; none where it has ended."""
    try:
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    near = [int(each) for each in children.split()]
    return near + [below for each in near for below in _below(each)]


def _command(process: int) -> str:
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _state(process: int) -> str:
    return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def _read(terminal: int, until: str) -> str:
    """Return what a terminal shows, up to some words."""
    shown, end = "", time.monotonic() + 60.0
    while until not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                shown += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # its other end was closed
                break
    return shown

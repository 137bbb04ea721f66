"""Progress of flows while a command runs: bars on a terminal, JSON lines for a program."""

import datetime as dt
import functools
import io
import json
import logging

import pytest
import rich.console

import flows.commands.printing
from flows.commands.printing import shown_progress
from flows.progress import Wait, announce, announce_waits


def test_a_program_reads_at_most_one_line_a_second_and_the_last_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([0.0, 0.5, 1.0, 1.1])
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: next(seconds))})
    monkeypatch.setattr(flows.commands.printing, "time", clock)
    with shown_progress():
        for done in range(1, 5):
            announce("parts", done, 4)
        announce_waits([Wait("late", "its rows", None)], 2)
    announce("parts", 4, 4)  # nobody listens any more
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["done"] for line in lines if line["event"] == "progress"] == [1, 3, 4]
    assert [line["event"] for line in lines[3:]] == ["left_out", "inputs"]


def test_what_workers_log_is_a_line_while_it_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logging.getLogger("workers.scan")
    level = logging.getLogger("workers").level
    with shown_progress():
        log.info("whatever", extra={"privaudit": {"event": "unit", "rows": 3}})
        log.info("what has no fields")
    log.warning("too late", extra={"privaudit": {"event": "unit", "rows": 4}})
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == [
        {"event": "unit", "rows": 3}
    ]
    assert logging.getLogger("workers").level == level


def test_a_person_sees_a_bar_for_each_audit_and_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    terminal = functools.partial(rich.console.Console, file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(flows.commands.printing, "Console", terminal)
    until = dt.datetime(2026, 5, 2, 8, tzinfo=dt.UTC)
    with shown_progress():
        announce("[bold]first", 1, 4)
        announce("second", 2, 8)
        announce("second", 8, 8)
        announce_waits([Wait("late", "its rows", until)], 3)
        announce_waits([Wait("late", "its rows", None)], 3)
    shown = screen.getvalue()
    for text in ("[bold]first", "1/4", "second", "8/8", "Left out: late. its rows is not there."):
        assert text in shown

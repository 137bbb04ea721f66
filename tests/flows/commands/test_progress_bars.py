"""Progress of flows while a command runs: bars on a terminal, JSON lines for a program."""

import datetime as dt
import functools
import io
import json
import logging
from typing import Any

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


UNTIL = dt.datetime(2026, 5, 2, 8, tzinfo=dt.UTC)


def test_each_wait_is_one_line_and_a_changed_one_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    with shown_progress():
        announce_waits([Wait("a", "its checkpoint", UNTIL), Wait("b", "its checkpoint", UNTIL)], 3)
        assert printed() == [
            {"event": "waiting", "model": name, "missing": "its checkpoint", "until": str(UNTIL)}
            for name in ("a", "b")
        ] + [{"event": "inputs", "there": 1, "models": 3}]
        announce_waits([Wait("a", "its checkpoint", UNTIL), Wait("b", "its rows", UNTIL)], 3)
        assert [line.get("model") for line in printed()] == ["b", None]
        announce_waits([Wait("a", "its rows", None)], 3)
        (left_out, _) = printed()
        assert left_out == {"event": "left_out", "model": "a", "missing": "its rows"}


def test_a_person_sees_a_bar_for_each_audit_and_one_line_for_a_thousand_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    terminal = functools.partial(rich.console.Console, file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(flows.commands.printing, "Console", terminal)
    with shown_progress():
        announce_waits([], 2000)
        announce("[bold]first", 1, 4)
        announce("second", 2, 8)
        announce("second", 8, 8)
        announce_waits([Wait(f"model-{at}", "its checkpoint", UNTIL) for at in range(1000)], 2000)
        announce_waits([Wait("[red]evil\x1b[2J", "its rows", UNTIL)], 2000)
        announce_waits([Wait("a", "its rows", None), Wait("b", "its rows", None)], 2000)
    shown = screen.getvalue()
    for text in (
        "[bold]first",
        "1/4",
        "second",
        "8/8",
        "Waiting until 2026-05-02 08:00 UTC for model-0 and 999 other models: its checkpoint is",
        "Left out: a and 1 other model. its rows is not there.",
    ):
        assert text in shown
    assert "[red]evil" in shown
    assert "evil\x1b[2J" not in shown

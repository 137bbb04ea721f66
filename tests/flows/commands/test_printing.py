"""Output of commands: tables, JSON, and progress as bars or JSON lines."""

import datetime as dt
import functools
import io
import json
import logging

import polars as pl
import pytest
import rich.console

import flows.commands.printing
from flows.commands.printing import json_text, print_rows, shown_progress
from flows.progress import Wait, announce, announce_waits
from tests.support.lake import DAY, EVE, write_settings
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse

LONG = "A sentence that is far longer than any terminal is wide, " * 10
FRAME = pl.DataFrame(
    {"model": ["a", ""], "reason": [LONG, "line\nbreak"], "values": [[1.5, 2.0], None]}
)


def test_without_a_terminal_nothing_is_cut_wrapped_padded_or_dropped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(FRAME, as_json=False)
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 1 + FRAME.height + 1  # header, rows, and what follows the last line break
    assert LONG.strip() in lines[1]
    assert r"line\u000abreak" in lines[2]
    assert all(line == line.rstrip() for line in lines)


def test_a_table_without_columns_is_no_line(capsys):
    print_rows(pl.DataFrame(), as_json=False)
    assert capsys.readouterr().out == ""


ASKED = {
    "show": ["show", "--all"],
    "sql": ["sql", "select model, reason from audits order by day"],
    "verify": ["verify", "--stored"],
    "overdue": ["overdue", "--day", str(EVE)],
    "compact": ["compact"],
    "dry-run": ["backfill", "--first", str(EVE), "--last", str(EVE), "--dry-run"],
}


@pytest.mark.parametrize("asked", ASKED)
def test_every_command_with_a_table_prints_it_as_json(tmp_path, privaudit, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ["good", "other"])
    records = [evaluated("good", EVE, reason=LONG), evaluated("good", DAY, reason=LONG)]
    put_rows(Warehouse(str(tmp_path / "warehouse")), records)
    told = json.loads(privaudit(*ASKED[asked], "--json").out)
    table = privaudit(*ASKED[asked]).out
    assert table
    assert all(line == line.rstrip() and line for line in table.splitlines())
    if asked == "sql":
        assert table.count(LONG.strip()) == len(told) == 2


def test_json_has_no_number_that_json_has_not():
    """A row without a finite figure made the answer of a command unreadable for other programs."""
    told = json_text([{"bound": float("nan"), "all": (float("inf"), 1.0)}])
    assert json.loads(told, parse_constant=pytest.fail) == [{"bound": None, "all": [None, 1.0]}]


def test_a_program_reads_at_most_one_line_a_second_and_the_last_one(capsys, monkeypatch):
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


def test_what_workers_log_is_a_line_while_it_is_shown(capsys):
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


def test_each_wait_is_one_line_and_a_changed_one_another(capsys):
    def printed():
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


def test_a_person_sees_a_bar_for_each_audit_and_one_line_for_a_thousand_waits(monkeypatch):
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

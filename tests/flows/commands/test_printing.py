"""How rows are printed: for a person by the terminal's width, for a program whole."""

import csv
import functools
import io
import json
import pathlib

import polars as pl
import pytest
import rich.console

import flows.commands.printing
from flows.commands.printing import Form, as_csv, form_of, json_text, print_rows, working
from tests.flows.conftest import Command
from tests.support.lake import DAY, EVE, write_settings
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse

LONG = "A sentence that is far longer than any terminal is wide, " * 10
FRAME = pl.DataFrame(
    {"model": ["a", ""], "reason": [LONG, "line\nbreak"], "values": [[1.5, 2.0], None]}
)


def test_without_a_terminal_nothing_is_cut_wrapped_padded_or_dropped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_rows(FRAME, Form.TABLE)
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 1 + FRAME.height + 1  # header, rows, and what follows the last line break
    assert LONG.strip() in lines[1]
    assert r"line\u000abreak" in lines[2]
    assert all(line == line.rstrip() for line in lines)


def test_a_table_without_columns_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(pl.DataFrame(), Form.TABLE)
    assert capsys.readouterr().out == ""


def test_what_is_printed_beside_a_spinner_has_its_own_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The spinner's line is erased before it."""
    screen = io.StringIO()
    terminal = functools.partial(rich.console.Console, file=screen, force_terminal=True)
    monkeypatch.setattr(
        flows.commands.printing, "Console", lambda *, stderr: terminal() if stderr else None
    )
    with working("Checking") as paused, paused():
        screen.write("ok a line\n")
    before = screen.getvalue().partition("ok a line\n")[0]
    assert before.rpartition("Checking")[2].endswith("\x1b[2K")


def test_json_and_csv_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(FRAME, Form.JSON)
    told = json.loads(capsys.readouterr().out)
    print_rows(FRAME, Form.CSV)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["reason"] for row in rows] == [row["reason"] for row in told]
    assert json.loads(rows[0]["values"]) == told[0]["values"]
    assert (rows[1]["values"], told[1]["values"]) == ("", None)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\n=1"])
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    frame = pl.DataFrame({"a": [text, "plain"], "b": ["1", text], "n": [-1.5, 2.0]})
    (header, first, second) = csv.reader(io.StringIO(as_csv(frame)))
    assert header == ["a", "b", "n"]
    assert first == [f"'{text}", "1", "-1.5"]
    assert second == ["plain", f"'{text}", "2.0"]


def test_csv_and_json_exclude_each_other(privaudit: Command) -> None:
    assert form_of(as_csv=True, as_json=False) is Form.CSV
    answer = privaudit("show", "--csv", "--json")
    assert answer.code == 64
    assert "give one of --csv and --json" in answer.err


ASKED = {
    "show": ["show", "--all"],
    "sql": ["sql", "select model, reason from audits order by day"],
    "verify": ["verify", "--stored"],
    "overdue": ["overdue", "--day", str(EVE)],
    "compact": ["compact"],
    "dry-run": ["backfill", "--first", str(EVE), "--last", str(EVE), "--dry-run"],
}


@pytest.mark.parametrize("asked", ASKED)
def test_every_command_with_a_table_prints_it_as_json_and_some_as_csv(
    tmp_path: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ["good", "other"])
    records = [evaluated("good", EVE, reason=LONG), evaluated("good", DAY, reason=LONG)]
    put_rows(Warehouse(str(tmp_path / "warehouse")), records)
    told = json.loads(privaudit(*ASKED[asked], "--json").out)
    if asked in {"show", "sql"}:
        rows = list(csv.DictReader(io.StringIO(privaudit(*ASKED[asked], "--csv").out)))
        assert len(rows) == len(told)
    table = privaudit(*ASKED[asked]).out
    assert table
    assert all(line == line.rstrip() and line for line in table.splitlines())
    if asked == "sql":
        assert table.count(LONG.strip()) == len(told) == 2


def test_json_has_no_number_that_json_has_not() -> None:
    """A row without a finite figure made the answer of a command unreadable for other programs."""
    told = json_text([{"bound": float("nan"), "all": (float("inf"), 1.0)}])
    assert json.loads(told, parse_constant=pytest.fail) == [{"bound": None, "all": [None, 1.0]}]

import contextlib
import datetime as dt
import io
import json
import pathlib
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

import flows.run.nightly
import workers.executors
from flows.commands.printing import WaitBar, WaitLines
from flows.progress import Wait, listening
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from tests.support.lake import DAY, clone_model, write_settings
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

UNTIL = dt.datetime(2026, 5, 2, 8, tzinfo=dt.UTC)


def wait(model: str, missing: str = "its checkpoint") -> Wait:
    return Wait(model, missing, UNTIL)


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_each_wait_is_one_line_and_a_changed_one_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = WaitLines()
    lines.show([wait("a"), wait("b")], 3)
    assert printed(capsys) == [
        {"event": "waiting", "model": name, "missing": "its checkpoint", "until": str(UNTIL)}
        for name in ("a", "b")
    ] + [{"event": "inputs", "there": 1, "models": 3}]
    lines.show([wait("a"), wait("b", "its rows")], 3)
    assert [line.get("model") for line in printed(capsys)] == ["b", None]
    lines.show([Wait("a", "its rows", None)], 3)
    (left_out, _) = printed(capsys)
    assert left_out == {"event": "left_out", "model": "a", "missing": "its rows"}


def test_a_thousand_waits_are_one_line_on_a_terminal() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    bars = Progress(TextColumn("{task.description}", markup=False), console=console)
    bar = WaitBar(bars)
    bar.show([wait(f"model-{number}") for number in range(1000)], 2000)
    (task,) = bars.tasks
    assert (task.completed, task.total, task.visible) == (1000, 2000, True)
    assert task.description == (
        "Waiting until 2026-05-02 08:00 UTC for model-0 and 999 other models: its checkpoint is "
        "not there"
    )
    bar.show([wait("[red]evil\x1b[2J")], 2000)
    assert len(bars.tasks) == 1
    assert "\x1b" not in task.description
    bar.show([], 2000)
    assert (task.completed, task.visible) == (2000, False)
    bar.show([Wait("a", "its rows", None), Wait("b", "its rows", None)], 2000)
    assert "Left out: a and 1 other model. its rows is not there." in text.getvalue()


def test_nothing_is_shown_where_nothing_is_waited_for() -> None:
    bars = Progress(disable=True)
    WaitBar(bars).show([], 3)
    assert bars.tasks == []


@pytest.fixture
def announced() -> list[tuple[list[str], int]]:
    return []


@pytest.mark.slow
@pytest.mark.usefixtures("in_process", "no_pages")
def test_a_night_says_at_once_what_it_waits_for_and_again_when_that_changes(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    announced: list[tuple[list[str], int]],
) -> None:
    clone_model(lake, "late")
    success = pathlib.Path(lake.uri) / f"models/late/day={DAY}/_SUCCESS"
    success.unlink()
    write_settings(tmp_path, ["good", "late"])
    monkeypatch.setattr(flows.run.nightly, "_now", before_the_deadline)
    monkeypatch.setattr(workers.executors, "_now", before_the_deadline)
    slept: list[float] = []

    def arrives(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            success.touch()

    monkeypatch.setattr(flows.run.nightly, "time", type("T", (), {"sleep": staticmethod(arrives)}))
    seen: list[tuple[list[str], int]] = announced
    said_before_ray: list[int] = []

    def ray(*_: object) -> contextlib.nullcontext[InProcess]:
        said_before_ray.append(len(seen))
        return contextlib.nullcontext(InProcess())

    monkeypatch.setattr(flows.run.nightly, "on_ray", ray)
    with listening(
        lambda *_: None, lambda waits, models: seen.append(([one.missing for one in waits], models))
    ):
        rows = start(nightly_audit, day=DAY, settings=str(tmp_path / "privaudit.toml"))
    assert seen == [([f"models/late/day={DAY}/_SUCCESS"], 2), ([], 2)]
    assert said_before_ray == [1]
    assert len(slept) == 2
    assert [row.model for row in rows] == ["good", "late"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_process", "no_pages")
def test_a_night_that_does_not_wait_audits_what_is_there_and_ends(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    announced: list[tuple[list[str], int]],
) -> None:
    write_settings(tmp_path, ["good", "late"])
    assert lake.exists(f"models/good/day={DAY}")
    monkeypatch.setattr(flows.run.nightly, "time", None)  # sleeping would fail
    seen: list[tuple[list[str], int]] = announced
    with listening(
        lambda *_: None, lambda waits, models: seen.append(([one.model for one in waits], models))
    ):
        rows = start(nightly_audit, day=DAY, settings=str(tmp_path / "privaudit.toml"), wait=False)
    assert [row.model for row in rows] == ["good"]
    assert seen == [(["late"], 2)]
    current = Warehouse(str(tmp_path / "warehouse")).current()
    assert current["model"].to_list() == ["good"]  # what is left out has no record


def before_the_deadline() -> dt.datetime:
    return dt.datetime.combine(DAY, dt.time(), dt.UTC) + dt.timedelta(days=1, minutes=1)

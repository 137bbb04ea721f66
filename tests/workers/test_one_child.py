"""A child process that carries work: the same answer, and it may end as it likes."""

import contextlib
import datetime as dt
import multiprocessing
import os
import pathlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flows.run import night_plan
from flows.run.night_plan import Job, Planned
from flows.settings import RaySettings
from privcore.exceptions import TransientError
from tests.support.in_a_child import dies, fails, refuses, sleeps, times
from tests.support.lake import DAY, PLAN, figures
from tests.support.tiers import tiered
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import DeadlinePassedError, InProcess, LostWorkerError
from workers.labels.shards import WORK_UNIT_BYTES
from workers.lake.layout import Lake
from workers.one_child import OneChild


@pytest.fixture(scope="module")
def child() -> Iterator[OneChild]:
    with OneChild() as executor:
        yield executor


@pytest.fixture
def counted(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "counted"
    file.write_text("")
    return file


def test_all_items_are_carried_by_one_other_process(child: OneChild) -> None:
    seen: list[int] = []
    assert child.fold(times, 3, range(5), on_done=seen.append) == 30
    assert len(set(seen)) == 1
    assert seen[0] != os.getpid()
    assert [value for _, value in child.map(times, 3, range(5))] == [0, 3, 6, 9, 12]
    assert child.fold(times, 3, [], on_done=seen.append) is None


def test_what_the_function_raises_is_raised_here(child: OneChild) -> None:
    with pytest.raises(NotEvaluableError, match="no label") as refused:
        list(child.map(refuses, None, ["no label"]))
    assert refused.value.reason is Reason.LABEL_INVALID


@pytest.mark.parametrize("what", tiered([fails, dies], always=1, slow=1))
def test_what_may_go_away_is_tried_again(child: OneChild, counted: pathlib.Path, what: Any) -> None:
    assert child.fold(what, counted, [3], on_done=lambda _: None) == 4


@pytest.mark.parametrize(
    ("what", "error"),
    tiered([(fails, TransientError), (dies, LostWorkerError)], always=1, slow=1),
)
def test_what_does_not_go_away_is_told(
    child: OneChild, counted: pathlib.Path, what: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        child.fold(what, counted, [9], on_done=lambda _: None)
    assert len(counted.read_text()) == 4
    assert child.fold(times, 2, [1], on_done=lambda _: None) == 2


@pytest.mark.slow
def test_a_deadline_ends_it(child: OneChild) -> None:
    begun = time.monotonic()
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    with pytest.raises(DeadlinePassedError):
        child.fold(sleeps, None, [120.0], on_done=lambda _: None, deadline=deadline)
    assert time.monotonic() - begun < 60.0
    assert child.fold(times, 2, [1], on_done=lambda _: None) == 2


def test_nothing_is_left_of_it() -> None:
    with OneChild() as executor:
        ((pid, _),) = executor.map(times, 1, [1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_cannot_start_is_the_error_that_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a script that calls an audit without asking for `__name__ == "__main__"`."""

    def no_start(_: object) -> None:
        raise RuntimeError("no new process before the bootstrapping phase is over")

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", no_start)
    with pytest.raises(RuntimeError, match="bootstrapping"), OneChild() as executor:
        list(executor.map(times, 1, [1]))


def test_whoever_still_asks_is_told_that_it_was_left() -> None:
    with ThreadPoolExecutor(1) as threads:
        with OneChild() as executor:
            list(executor.map(times, 1, [1]))
            asked = threads.submit(lambda: list(executor.map(sleeps, None, [120.0])))
            time.sleep(1.0)
        with pytest.raises(TransientError, match="was killed"):
            asked.result(timeout=60.0)


@pytest.mark.slow
def test_an_audit_has_the_same_figures(child: OneChild, template: Lake) -> None:
    here = run_audit(template, "good", DAY, plan=PLAN, executor=InProcess())
    there = run_audit(template, "good", DAY, plan=PLAN, executor=child)
    assert figures(there) == figures(here)
    assert here.audit.status == "evaluated"


def planned(size: int) -> list[Planned]:
    return [Planned(Job("good", DAY), label_bytes=size)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "address", "connected", "where"),
    [
        (0, "local", False, "child"),
        (WORK_UNIT_BYTES, "local", False, "child"),
        (WORK_UNIT_BYTES + 1, "local", False, "ray"),
        (0, "auto", False, "ray"),
        (0, "local", True, "ray"),
    ],
)
def test_ray_carries_what_can_be_shared_out(
    monkeypatch: pytest.MonkeyPatch, size: int, address: str, connected: bool, where: str
) -> None:
    monkeypatch.setattr(night_plan, "connected", lambda: connected)
    monkeypatch.setattr(night_plan, "on_ray", lambda *_: contextlib.nullcontext("ray"))
    with night_plan.choose_executor(planned(size), RaySettings(address=address)) as executor:
        assert ("child" if isinstance(executor, OneChild) else executor) == where

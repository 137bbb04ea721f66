"""Fixtures that several test folders share."""

import contextlib
import io
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import hypothesis
import pytest
from prefect.testing.utilities import prefect_test_harness

import flows.learn.demo
import flows.run.audit_model
import flows.run.auditing
import flows.run.backfill
import flows.run.choose_executor
import flows.run.nightly
import flows.run.release
from flows import cli
from tests.support.lake import DAY, EVE, declared, small_lake
from workers import executors, patience
from workers.executors import InProcess
from workers.lake.layout import Lake

# The same examples on every run and machine, however busy: what decides a landing must be
# repeatable.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def pytest_xdist_auto_num_workers() -> int:
    """Give two processors three workers: tests also wait, for servers and children."""
    return max(1, (os.cpu_count() or 1) * 3 // 2)


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands leave in a person's home out of it, also where they run as processes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


_OF_ITSELF = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "EVENT_PERSISTER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TASK_RUN_RECORDER",
    "TRIGGERS",
)


@pytest.fixture(scope="module")
def prefect_server() -> Iterator[None]:
    """Give a module's flows a server and database of their own: it takes seconds.

    What the server does of itself is left out, and no slot of its limit is asked for, but in
    `test_slots.py`: either locks SQLite now and then, which lets the client sleep two seconds.
    """
    with pytest.MonkeyPatch.context() as patched:
        for service in _OF_ITSELF:
            patched.setenv(f"PREFECT_SERVER_SERVICES_{service}_ENABLED", "false")
        patched.setattr(flows.run.auditing, "slot", lambda _: contextlib.nullcontext())
        with prefect_test_harness(server_startup_timeout=120):
            yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the flows do their work in this process instead of on Ray, and try again at once."""
    monkeypatch.setattr(patience, "time", SimpleNamespace(sleep=lambda _: None))
    for module in (flows.run.backfill, flows.run.nightly, flows.run.release, executors):
        monkeypatch.setattr(module, "on_ray", lambda *_: contextlib.nullcontext(InProcess()))
    here = contextlib.nullcontext(InProcess())
    for module in (flows.run.audit_model, flows.run.choose_executor):
        monkeypatch.setattr(module, "choose_executor", lambda *_: here)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with one good model, to be copied and never changed."""
    folder: pathlib.Path = tmp_path_factory.mktemp("template") / "lake"
    return small_lake(folder, privacy=declared(), days=(EVE, DAY))


@pytest.fixture
def lake(template: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it in the test's own folder, to be changed."""
    shutil.copytree(template.uri, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


@pytest.fixture(scope="session")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    folder, printed = tmp_path_factory.mktemp("small"), io.StringIO()
    few = {"iterations": 10, "depth": 4, "leaf_estimation_iterations": 1}
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(printed):
        patched.chdir(folder)
        patched.setenv("COLUMNS", "100")
        patched.delenv("PRIVAUDIT_CONFIG", raising=False)
        patched.setattr(flows.learn.demo, "OVERFIT", few)
        for module in (flows.learn.demo, flows.run.backfill):
            patched.setattr(module, "on_ray", lambda *_: contextlib.nullcontext(InProcess()))
        patched.setattr(sys, "argv", ["privaudit", "demo", "--days", "2"])
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert end.value.code in {0, None}
    return folder / "demo", printed.getvalue()


@pytest.fixture(scope="session")
def small_demo(_demo: tuple[pathlib.Path, str]) -> pathlib.Path:
    """Return the folder of a demo of two days, with smaller models and without Ray."""
    return _demo[0]


@pytest.fixture(scope="session")
def printed_demo(_demo: tuple[pathlib.Path, str]) -> str:
    """Return what that demo printed."""
    return _demo[1]

"""Fixtures that several test folders share.

What they need is imported when one is asked for: this file is also read by the process that only
divides the tests among the workers.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import io
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from workers.lake.layout import Lake

# The same examples on every run and machine, however busy: what decides a landing must be
# repeatable.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Give two processors three workers, and four to slow tests: they wait for servers and Ray."""
    halves = 4 if config.option.markexpr.startswith("slow") else 3
    return max(1, (os.cpu_count() or 1) * halves // 2)


def pytest_ignore_collect(collection_path: pathlib.Path) -> bool | None:
    """Import no helper in search of doctests: one of them waits ten minutes when a process ends."""
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return helper or None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: pathlib.Path) -> Generator[None, list[Any], list[Any]]:
    """Search no test for doctests: each module's objects are asked one by one, and none has any."""
    found = yield
    is_test = file_path.name.startswith("test_")
    return [one for one in found if type(one) is pytest.Module] if is_test else found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from all that was imported and collected: it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests of what makes figures."""
    from tests.support.tiers import is_statistics  # noqa: PLC0415

    for item in items:
        if item.get_closest_marker("slow") and is_statistics(item.path):
            item.add_marker("statistics")


@pytest.fixture
def alerts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the alerts that are delivered, in place of delivering them."""
    told: list[Any] = []
    monkeypatch.setattr("flows.notify.alerts.deliver", lambda alert, _: told.append(alert))
    return told


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

    What the server does of itself is left out, and flows ask for no slot of its limit: either locks
    SQLite now and then, which lets the client sleep two seconds.
    """
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patched:
        for service in _OF_ITSELF:
            patched.setenv(f"PREFECT_SERVER_SERVICES_{service}_ENABLED", "false")
        patched.setattr("flows.run.auditing.slot", lambda _: contextlib.nullcontext())
        with prefect_test_harness(server_startup_timeout=120):
            yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the flows do their work in this process instead of on Ray, and try again at once."""
    from tests.support.in_process import work_in_process  # noqa: PLC0415

    work_in_process(monkeypatch)


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out metrics and report at the end of a flow: more work than a small audit's."""
    monkeypatch.setattr("flows.run.conclusion._published", lambda settings: (settings.report, None))


Limit = Callable[..., None]
"""Sets a bound of `workers.lake.limits` by its name."""


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Return what sets one of the bounds of foreign bytes until the test ends."""
    from workers.lake import limits  # noqa: PLC0415

    return functools.partial(monkeypatch.setattr, limits)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with one good model, to be copied and never changed."""
    from tests.support.lake import DAY, EVE, declared, small_lake  # noqa: PLC0415

    folder: pathlib.Path = tmp_path_factory.mktemp("template") / "lake"
    return small_lake(folder, privacy=declared(), days=(EVE, DAY))


@pytest.fixture
def lake(template: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it in the test's own folder, to be changed."""
    from workers.lake.layout import Lake  # noqa: PLC0415

    shutil.copytree(template.uri, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def _play_demo(folder: pathlib.Path) -> None:
    """Leave a demo of two days in the folder."""
    from flows import cli  # noqa: PLC0415
    from workers.executors import InProcess  # noqa: PLC0415

    few = {"iterations": 10, "depth": 4, "leaf_estimation_iterations": 1}
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()):
        patched.chdir(folder)
        patched.setenv("COLUMNS", "100")
        patched.setattr("flows.learn.demo.OVERFIT", few)
        for module in ("flows.learn.demo", "flows.run.nightly"):
            patched.setattr(f"{module}.on_ray", lambda *_: contextlib.nullcontext(InProcess()))
        patched.setattr(sys, "argv", ["privaudit", "demo", "--days", "2"])
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert end.value.code in {0, None}
    folder.with_suffix(".made").touch()


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> pathlib.Path:
    """Return the folder of a demo of two days, of smaller models and without Ray; it stays.

    The first worker to ask for it makes it for all.
    """
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    with (shared / "small.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "small.made").exists():
            shutil.rmtree(shared / "small", ignore_errors=True)
            _play_demo(shared / "small")
    return shared / "small" / "demo"

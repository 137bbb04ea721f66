"""Fixtures that several test folders share."""

import contextlib
import pathlib
from collections.abc import Iterator

import pytest
from prefect.testing.utilities import prefect_test_harness

import flows.nightly
from tests.support.lake import DAY, EVE, declared, small_lake
from workers.executors import InProcess
from workers.lake import Lake


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Give flows a server and database of their own, once: it takes seconds."""
    with prefect_test_harness():
        yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, prefect_server: None) -> None:  # noqa: ARG001
    """Let the flow do its work in this process instead of on Ray."""
    monkeypatch.setattr(
        flows.nightly, "on_ray", lambda *_: contextlib.nullcontext(InProcess())
    )


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with one good model, to be copied and never changed."""
    folder: pathlib.Path = tmp_path_factory.mktemp("template") / "lake"
    return small_lake(folder, privacy=declared(), days=(EVE, DAY))

"""Fixtures that the tests of several folders of the data plane share."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.support.lake import remembering_lake
from tests.support.postgresql import Server, postgresql
from workers import patience
from workers.lake.layout import Lake


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a PostgreSQL server for a module: it takes a second to start."""
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    return remembering_lake(tmp_path_factory.mktemp("remembered"))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing that is tried again waits; return how long each try would have waited at most."""
    slept: list[float] = []
    monkeypatch.setattr(patience, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(patience.random, "uniform", lambda _, longest: longest)
    return slept

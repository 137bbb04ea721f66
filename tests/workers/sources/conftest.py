"""Fixtures that the tests of sources share."""

import contextlib
import pathlib
import socket
import threading
from collections.abc import Iterator

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.in_place import put_file, train
from tests.support.lake import DAY, EVE


@pytest.fixture
def catalog(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    """An Iceberg catalogue named `here`, as pyiceberg finds one by the environment."""
    uri, place = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/iceberg"
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", place)
    catalog = SqlCatalog("here", uri=uri, warehouse=place)
    catalog.create_namespace("ads")
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder of models as training writes them: <model>/2026/03/02/model.json."""
    root = tmp_path_factory.mktemp("models")
    for day in (EVE, DAY):
        put_file(root / f"ads/{day:%Y/%m/%d}/model.json", train(day, kind="json").content)
    return root


@pytest.fixture
def stranger() -> Iterator[tuple[int, list[bytes]]]:
    """A server of somebody else: its port, and what it was told."""
    told: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        told.append(connection.recv(1 << 16))

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], told
        server.shutdown(socket.SHUT_RDWR)

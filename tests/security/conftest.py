"""The lake and the warehouse that most of these tests change."""

import datetime as dt
import pathlib
import shutil

import pytest

from flows.settings import Settings, load_settings
from tests.support.lake import clone_model, write_settings
from tests.support.warehouse import evaluated, put_rows
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Return a lake of two good models; `bad` is to be damaged."""
    clone_model(lake, "bad")
    return lake


@pytest.fixture(scope="session")
def one_row(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a table of one audit, to be copied."""
    place = tmp_path_factory.mktemp("one_row")
    put_rows(Warehouse(str(place)), [evaluated("good", dt.date(2026, 4, 1))])
    return place


@pytest.fixture
def stored(one_row: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a warehouse of one audit, to be changed."""
    return shutil.copytree(one_row, tmp_path / "warehouse")


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    """Return an empty warehouse, which `settings` name."""
    return Warehouse(str(tmp_path / "warehouse"))


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    """Return the settings of one model."""
    return load_settings(write_settings(tmp_path, ["ads"]))

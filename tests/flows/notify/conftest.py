"""One model's settings and an empty warehouse, for tests that need no others."""

import pathlib

import pytest

from flows.settings import Settings, load_settings
from tests.support.lake import write_settings
from workers.warehouse.store import Warehouse


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    return load_settings(write_settings(tmp_path, ["ads"]))


@pytest.fixture
def warehouse(settings: Settings) -> Warehouse:
    return Warehouse(settings.warehouse)

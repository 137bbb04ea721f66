"""One model's settings and an empty warehouse, for tests that need no others."""

import pytest

from flows.settings import load_settings
from tests.support.lake import write_settings
from workers.warehouse.store import Warehouse


@pytest.fixture
def settings(tmp_path):
    return load_settings(write_settings(tmp_path, ["ads"]))


@pytest.fixture
def warehouse(settings):
    return Warehouse(settings.warehouse)

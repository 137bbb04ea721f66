"""A warehouse in which nothing is yet."""

import pathlib

import pytest

from workers.warehouse.store import Warehouse


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))

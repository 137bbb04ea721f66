"""A warehouse of two records, written once."""

import pathlib
import shutil

import pytest

from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed
from workers.warehouse.store import Warehouse


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Return a warehouse to be copied and never changed."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("two-records") / "warehouse"))
    warehouse.commit(evaluated("ads", DAY))
    warehouse.commit(failed("loans", DAY))
    return warehouse


@pytest.fixture
def warehouse(written_once: Warehouse, tmp_path: pathlib.Path) -> Warehouse:
    """Return a copy of it in the test's own folder, to be changed."""
    shutil.copytree(written_once.uri, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))

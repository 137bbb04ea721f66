"""Two models on the same labels, for tests of the pass and of what it stages."""

import pathlib
from typing import Any

import pytest

from tests.support.lake import copied, figures
from tests.support.two_models import audited, lake_of_two
from workers.lake.layout import Lake


@pytest.fixture(scope="session")
def template_of_two(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of_two(tmp_path_factory.mktemp("passes") / "lake")


@pytest.fixture
def two_models(template_of_two: Lake, tmp_path: pathlib.Path) -> Lake:
    return copied(template_of_two, tmp_path)


@pytest.fixture(scope="session")
def expected(template_of_two: Lake) -> list[dict[str, Any]]:
    """Return the records of the lake as it is, read unit by unit."""
    return [figures(record) for record in audited(template_of_two)]

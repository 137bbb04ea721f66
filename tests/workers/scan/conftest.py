"""Two models on the same labels, for tests of the pass and of what it stages."""

import pytest

from tests.support.lake import copied, figures
from tests.support.two_models import audited, lake_of_two


@pytest.fixture(scope="session")
def template_of_two(tmp_path_factory):
    return lake_of_two(tmp_path_factory.mktemp("passes") / "lake")


@pytest.fixture
def two_models(template_of_two, tmp_path):
    return copied(template_of_two, tmp_path)


@pytest.fixture(scope="session")
def expected(template_of_two):
    """Return the records of the lake as it is, read unit by unit."""
    return [figures(record) for record in audited(template_of_two)]

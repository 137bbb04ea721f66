"""Fixtures that the tests of several folders of the data plane share."""

from collections.abc import Iterator

import pytest

from tests.support.postgresql import Server, postgresql


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a PostgreSQL server for a module: it takes a second to start."""
    with postgresql() as running:
        yield running

"""The lake and the warehouse that most of these tests change."""

import pytest

from tests.support.lake import clone_model


@pytest.fixture
def lake(lake):
    """Return a lake of two good models; `bad` is to be damaged."""
    clone_model(lake, "bad")
    return lake

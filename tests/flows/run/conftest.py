"""A lake of two models that are audited, for tests of whole nights."""

import pytest

from tests.support.lake import clone_model, write_settings


@pytest.fixture
def twins(lake, tmp_path):
    """Return the settings of a lake of two days, in which `good` and `twin` are audited."""
    clone_model(lake, "twin")
    return write_settings(tmp_path, ["good", "twin"])

"""Fixtures that the tests of supplied scores share."""

import pathlib
import tempfile

import pytest

from tests.support.joined_tables import Tables


@pytest.fixture
def tables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    return Tables(tmp_path)

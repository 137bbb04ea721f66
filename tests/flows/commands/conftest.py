"""A folder in which three statements are published and a key is made: made once, then copied."""

import datetime as dt
import pathlib
import shutil

import pytest

from tests.support.lake import write_settings
from tests.support.statements import statement
from workers.evidence.attestation import make_key_pair
from workers.plain_files import make_key
from workers.publication.statements import Statements

NOW = dt.datetime.now(dt.UTC).replace(microsecond=123000)


def publish(folder, *numbers, published_at=NOW):
    """Publish these statements in a folder."""
    for number in numbers:
        made = statement(
            number,
            evidence=20000 if number == 2 else 120,
            published_at=published_at,
            dataset=f"clicks-{number}",
        )

        Statements(str(folder / "statements")).append(lambda _, made=made: [made])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the test's folder, with settings of one model, and stand in it."""
    write_settings(tmp_path, ["good"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def published_project(tmp_path_factory):
    """Return a project's folder with three statements and a key; it stays as it is."""
    folder: pathlib.Path = tmp_path_factory.mktemp("published") / "project"
    folder.mkdir()
    write_settings(
        folder, ["model-0"], more='[publication]\nstatements = "statements"\nkey_file = "key"\n'
    )
    make_key(folder / "key")
    publish(folder, 0, 1, 2)
    make_key_pair(folder / "evidence.pem")
    return folder


@pytest.fixture
def project(published_project, tmp_path, monkeypatch):
    """Return a copy of it in the test's own folder, and stand in it."""
    folder = shutil.copytree(published_project, tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder

"""Studies are computed in this process, and with fewer settings where a test says so."""

import pytest

from tests.support.studies import here


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch):
    monkeypatch.setattr("flows.study.runner.on_ray", here)


@pytest.fixture
def smaller(monkeypatch):
    """Return what replaces settings of a study, given by name."""

    def change(study, **settings):
        for name, value in settings.items():
            monkeypatch.setattr(study, name, value)

    return change

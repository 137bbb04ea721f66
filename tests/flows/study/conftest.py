"""Studies are computed in this process, and with fewer settings where a test says so."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.support.studies import here


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.study.runner.on_ray", here)


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what replaces settings of a study, given by name."""

    def change(study: ModuleType, **settings: Any) -> None:
        for name, value in settings.items():
            monkeypatch.setattr(study, name, value)

    return change

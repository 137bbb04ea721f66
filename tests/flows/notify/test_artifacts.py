"""A page of Prefect that its server does not take costs no audit."""

import uuid
from typing import NoReturn

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from flows.notify import artifacts


def refuse(*_: object, **__: object) -> NoReturn:
    """Fail as the client does while the server's database is away."""
    request = httpx.Request("POST", "http://server/api/artifacts/")
    raise PrefectHTTPStatusError("500", request=request, response=httpx.Response(500))


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "in_prefect", lambda: True)
    monkeypatch.setattr(artifacts, "_hear_workers", lambda: None)


@pytest.mark.parametrize("refused", ["create_progress_artifact", "update_progress_artifact"])
def test_a_bar_that_the_server_does_not_take_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    shown: list[float] = []
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda **_: uuid.uuid4())
    monkeypatch.setattr(
        artifacts, "update_progress_artifact", lambda _, progress: shown.append(progress)
    )
    monkeypatch.setattr(artifacts, refused, refuse)
    with artifacts.progress_bar("audits") as advance:
        advance(1, 1)
    assert shown == []


def test_a_bar_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[float] = []
    monkeypatch.setattr(artifacts, "create_progress_artifact", lambda **_: uuid.uuid4())
    monkeypatch.setattr(
        artifacts, "update_progress_artifact", lambda _, progress: shown.append(progress)
    )
    with artifacts.progress_bar("audits") as advance:
        advance(2, 2)
    assert shown == [100.0]


def test_a_summary_that_the_server_does_not_take_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(artifacts, "create_markdown_artifact", refuse)
    artifacts.leave_summary("key", "text", "what")
    assert "did not take the summary: 500" in caplog.text

"""A page of Prefect that its server does not take costs no audit."""

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


def test_a_summary_that_the_server_does_not_take_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(artifacts, "create_markdown_artifact", refuse)
    artifacts.leave_summary("key", "text", "what")
    assert "did not take the summary: 500" in caplog.text

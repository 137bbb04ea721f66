"""`privaudit notify --test` without a Prefect server."""

import json
import pathlib
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from flows.cli import app
from flows.notify.alerts import TEST, send_tests
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.flows.notify.test_alerts import SECRET, receiver

__all__ = ["receiver"]  # a fixture
GIVEN = 'lake = "l"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "ads"\n'


def settings_file(folder: pathlib.Path, url: str | None = None) -> pathlib.Path:
    file = folder / "privaudit.toml"
    webhook = f'[webhook]\nurl = "{url}"\nsecret = "{SECRET}"\n' if url else ""
    file.write_text(GIVEN + webhook)
    return file


def test_the_webhook_gets_one_signed_message_without_a_server(
    tmp_path: pathlib.Path, receiver: Any
) -> None:
    server = receiver(200)
    file = settings_file(tmp_path, server.url)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        ran = CliRunner().invoke(app, ["notify", "--test", "--config", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "ok     webhook: the message was accepted" in ran.output
    ((headers, body),) = server.taken
    assert headers["X-Privaudit-Signature"].startswith("sha256=")
    payload = json.loads(body)
    assert payload["event"] == TEST
    assert "about no model" in payload["reason"]


def test_a_webhook_that_refuses_is_asked_once_and_named(
    tmp_path: pathlib.Path, receiver: Any
) -> None:
    server = receiver(503)
    file = settings_file(tmp_path, server.url)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        ran = CliRunner().invoke(app, ["notify", "--test", "--config", str(file)])
    assert ran.exit_code == 1
    assert "failed webhook: " in ran.output
    assert "status 503" in " ".join(ran.output.split())
    assert len(server.taken) == 1


def test_where_nothing_is_configured_no_success_is_reported(tmp_path: pathlib.Path) -> None:
    settings = load_settings(settings_file(tmp_path))
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        with pytest.raises(TerminalError, match="No notification is configured"):
            list(send_tests(settings))
        ran = CliRunner().invoke(app, ["notify", "--config", str(tmp_path / "privaudit.toml")])
    assert ran.exit_code != 0

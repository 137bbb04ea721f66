"""A test message through a real HTTP and a real SMTP receiver on this machine."""

import email
import email.message
import json
import os
import pathlib
import re
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL

from flows.notify.trial import send_tests
from flows.settings import Settings, load_settings
from privcore.exceptions import TerminalError
from tests.flows.notify.test_webhook import Receiver, started

NOTIFICATIONS = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "notifications.yaml"
PREFECT = pathlib.Path(sys.executable).with_name("prefect")


class MailServer(socketserver.ThreadingTCPServer):
    """Receives mail by SMTP, and keeps it; with an answer of 554 it refuses every recipient."""

    daemon_threads = True

    def __init__(self, *, accepts: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.accepts = accepts
        self.mails: list[tuple[list[str], email.message.Message]] = []


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 here")
        to: list[str] = []
        for line in iter(self.rfile.readline, b""):
            command = line.decode().strip()
            word = command[:4].upper()
            if word == "QUIT":
                self.say("221 bye")
                return
            if word == "RCPT" and not self.server.accepts:
                self.say("554 no")
                continue
            if word == "RCPT":
                to += re.findall("<(.+)>", command)
            if word == "DATA":
                self.say("354 go on")
                self.server.mails.append((to, email.message_from_bytes(self.content())))
            self.say("250 fine")

    def content(self) -> bytes:
        lines = iter(self.rfile.readline, b".\r\n")
        return b"".join(line.removeprefix(b".") for line in lines)

    def say(self, line: str) -> None:
        self.wfile.write(line.encode() + b"\r\n")


@pytest.fixture
def receiver() -> Iterator[Any]:
    with started(Receiver) as start:
        yield start


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with started(MailServer) as start:
        yield start()


def mail_block(server: MailServer) -> SlackWebhook:
    """Return a block that sends by SMTP: Apprise goes by the scheme of a block's address."""
    port = server.server_address[1]
    url = f"mailto://127.0.0.1:{port}?from=privaudit@example.com&to=privacy@example.com"
    return SlackWebhook(url=url)  # type: ignore[arg-type]  # pydantic makes it secret


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
class TestBlocks:
    """With a Prefect server: blocks as type/name, or those of the automations."""

    @pytest.fixture
    def settings(self, tmp_path: pathlib.Path) -> Settings:
        file = tmp_path / "privaudit.toml"
        file.write_text('lake = "l"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "ads"\n')
        return load_settings(file)

    def test_mail_arrives_by_smtp_through_the_block_of_the_automations(
        self, settings: Settings, mail_server: MailServer, tmp_path: pathlib.Path
    ) -> None:
        identity = mail_block(mail_server).save("mail", overwrite=True)
        file = tmp_path / "notifications.yaml"
        file.write_text(NOTIFICATIONS.read_text().replace("BLOCK_ID", str(identity)))
        create = [PREFECT, "automation", "create", "--from-file", file]
        subprocess.run(
            create, check=True, env=os.environ | {"PREFECT_API_URL": PREFECT_API_URL.value()}
        )
        (sent,) = send_tests(settings)
        assert (sent.what, sent.ok) == ("block slack-webhook/mail", True)
        ((to, mail),) = mail_server.mails
        assert to == ["privacy@example.com"]
        assert mail["Subject"] == "privaudit: a test message"
        assert "alerts arrive here too" in str(mail)

    def test_a_mail_server_that_refuses_is_a_failure(
        self, settings: Settings, mail_server: MailServer
    ) -> None:
        mail_server.accepts = False
        mail_block(mail_server).save("refused", overwrite=True)
        (sent,) = send_tests(settings, block="slack-webhook/refused")
        assert not sent.ok
        assert mail_server.mails == []

    @pytest.mark.parametrize(("status", "ok"), [(200, True), (403, False)])
    def test_a_webhook_block_is_asked_and_its_secret_never_shown(
        self, settings: Settings, receiver: Any, status: int, ok: bool
    ) -> None:
        server = receiver(status)
        CustomWebhookNotificationBlock(
            name="hook", url=f"{server.url}/{{{{token}}}}", secrets={"token": "hidden"},
            json_data={"text": "{{subject}}: {{body}}"},
        ).save("hook", overwrite=True)  # fmt: skip
        (sent,) = send_tests(settings, block="custom-webhook/hook")
        assert sent.ok is ok
        assert "hidden" not in sent.sentence
        assert ok or "status 403" in sent.sentence
        ((_, body),) = server.taken
        assert json.loads(body)["text"].startswith("privaudit: a test message: A person sent")

    def test_a_block_that_is_missing_or_cannot_notify_is_named(self, settings: Settings) -> None:
        with pytest.raises(TerminalError, match="slack-webhook/none"):
            list(send_tests(settings, block="slack-webhook/none"))
        Secret(value="x").save("mute", overwrite=True)
        (sent,) = send_tests(settings, block="secret/mute")
        assert (sent.ok, "cannot send notifications" in sent.sentence) == (False, True)

"""A test message through a real HTTP receiver on this machine."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL

from flows.notify import alerts
from flows.notify.alerts import send_tests
from flows.settings import Settings, load_settings
from tests.flows.notify.test_webhook import receiver

__all__ = ["receiver"]  # a fixture
NOTIFICATIONS = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "notifications.yaml"
PREFECT = pathlib.Path(sys.executable).with_name("prefect")


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
class TestBlocks:
    """With a Prefect server: blocks that automations use."""

    @pytest.fixture
    def settings(self, tmp_path: pathlib.Path) -> Settings:
        file = tmp_path / "privaudit.toml"
        file.write_text('lake = "l"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "ads"\n')
        return load_settings(file)

    def test_a_message_arrives_through_the_block_of_the_automations(
        self, settings: Settings, receiver: Any, tmp_path: pathlib.Path
    ) -> None:
        server = receiver(200)
        identity = CustomWebhookNotificationBlock(
            name="own", url=server.url, json_data={"text": "{{subject}}: {{body}}"}
        ).save("own", overwrite=True)
        file = tmp_path / "notifications.yaml"
        file.write_text(NOTIFICATIONS.read_text().replace("BLOCK_ID", str(identity)))
        create = [PREFECT, "automation", "create", "--from-file", file]
        subprocess.run(
            create, check=True, env=os.environ | {"PREFECT_API_URL": PREFECT_API_URL.value()}
        )
        (sent,) = send_tests(settings)
        assert (sent.what, sent.ok) == ("block custom-webhook/own", True)
        ((_, body),) = server.taken
        assert "alerts arrive here too" in json.loads(body)["text"]

    @pytest.mark.parametrize(("status", "ok"), [(200, True), (403, False)])
    def test_a_webhook_block_is_asked_and_its_secret_never_shown(
        self,
        settings: Settings,
        receiver: Any,
        monkeypatch: pytest.MonkeyPatch,
        status: int,
        ok: bool,
    ) -> None:
        server = receiver(status)
        identity = CustomWebhookNotificationBlock(
            name="hook", url=f"{server.url}/{{{{token}}}}", secrets={"token": "hidden"},
            json_data={"text": "{{subject}}: {{body}}"},
        ).save("hook", overwrite=True)  # fmt: skip
        monkeypatch.setattr(alerts, "_blocks", lambda: iter([(identity, "hook")]))
        (sent,) = send_tests(settings)
        assert sent.ok is ok
        assert "hidden" not in sent.sentence
        assert ok or "status 403" in sent.sentence
        ((_, body),) = server.taken
        assert json.loads(body)["text"].startswith("privaudit: a test message: A person sent")

    def test_a_block_that_cannot_notify_is_named(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        identity = Secret(value="x").save("mute", overwrite=True)
        monkeypatch.setattr(alerts, "_blocks", lambda: iter([(identity, "mute")]))
        (sent,) = send_tests(settings)
        assert (sent.ok, "cannot send notifications" in sent.sentence) == (False, True)

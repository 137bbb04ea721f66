"""Credentials of the environment and of the settings appear in no record, log, page or message."""

import logging

import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.notify.alerts import WebhookError, send
from flows.report.site import write_report
from flows.settings import SettingsError, load_settings
from tests.support.audits import recorded
from tests.support.damages import DAMAGES
from tests.support.lake import clone_model, write_settings
from tests.support.object_store import led_to, object_store
from workers.lake.layout import Lake
from workers.patience import ONCE
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

PLANTED = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTEDPLANTED00",
    "AWS_SECRET_ACCESS_KEY": "planted/secret+access=key",
    "AWS_SESSION_TOKEN": "planted-session-token",
    "PREFECT_API_KEY": "pnu_planted_api_key",
    "RAY_AUTH_TOKEN": "planted-ray-token-0000",
    "PRIVAUDIT_WEBHOOK__URL": "http://127.0.0.1:9/",
    "PRIVAUDIT_WEBHOOK__SECRET": "planted-webhook-secret",
}
SECRETS = [value for name, value in PLANTED.items() if not name.endswith("URL")]


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)


def leaks(*texts: object) -> list[str]:
    return [secret for secret in SECRETS if any(secret in str(text) for text in texts)]


def test_the_search_finds_a_leak():
    assert leaks({"reason": f"with {SECRETS[1]}"}) == [SECRETS[1]]


def test_no_record_log_or_report_holds_one(lake, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    records: list[AuditRecord] = [recorded(lake), recorded(lake, model="nobody")]
    for number, damage in enumerate(DAMAGES[::12]):
        clone_model(lake, f"bad{number}")
        damage.apply(lake, f"bad{number}")
        records.append(recorded(lake, model=f"bad{number}"))
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(records)
    write_report(warehouse, tmp_path / "report")
    page = "".join(path.read_text("utf-8") for path in (tmp_path / "report").rglob("*.html"))
    assert "nobody" in page
    stored = b"".join(p.read_bytes() for p in (tmp_path / "warehouse").rglob("*") if p.is_file())
    assert len(stored) > 10_000
    assert leaks(page, records, caplog.text, stored.decode("latin-1")) == []


@pytest.mark.slow
def test_no_command_prints_one(lake, tmp_path):
    config = ["--config", str(write_settings(tmp_path, ["good"]))]
    Warehouse(str(tmp_path / "warehouse")).commit([recorded(lake)])
    for command in (
        ["show", "--all", *config],
        ["show", "--all", "--json", *config],
        ["sql", "select * from audits", *config],
        ["sql", "select no_such_thing from audits", *config],
        ["show", "--config", str(tmp_path / "nowhere.toml")],
    ):
        ran = CliRunner().invoke(app, command)
        assert leaks(ran.output, ran.exception) == [], command
        assert len(ran.output) + len(str(ran.exception)) > 10


def test_settings_show_none_when_printed_or_refused(tmp_path):
    path = write_settings(tmp_path, ["good"])
    settings = load_settings(path)
    assert settings.webhook.secret.get_secret_value() == PLANTED["PRIVAUDIT_WEBHOOK__SECRET"]
    assert leaks(settings, repr(settings), settings.model_dump_json()) == []
    path.write_text(path.read_text("utf-8").replace("[plan]", "[webhook]\nnonsense = 1\n[plan]"))
    with pytest.raises(SettingsError) as refused:
        load_settings(path)
    assert leaks(refused.value, refused.value.__cause__, refused.value.problems) == []


def test_a_webhook_that_fails_does_not_say_its_secret(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    settings = load_settings(write_settings(tmp_path, ["good"]))
    with pytest.raises(WebhookError) as failed:
        send(settings.webhook, {"subject": "x"}, patience=ONCE)
    assert leaks(failed.value, caplog.text) == []


def test_a_store_that_refuses_is_reported_without_its_keys(caplog):
    caplog.set_level(logging.DEBUG)
    with object_store() as endpoint, led_to(endpoint):
        said: list[object] = []
        for wanted in (
            lambda: recorded(Lake("s3://nowhere/lake"), model="m"),
            lambda: Warehouse("s3://nowhere/warehouse").current(),
        ):
            try:
                said.append(wanted())
            except Exception as error:  # noqa: BLE001  # whatever it is, it is printed somewhere
                said += [error, error.__cause__, error.__context__]
        assert len(said) >= 2
        assert leaks(*said, caplog.text) == []

"""Settings, from the file or the environment, run nothing, lead nowhere unsafe and stay bounded."""

import datetime as dt
import os
import pathlib

import pytest

from flows.settings import SettingsError, load_settings
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import checkpoint_folder

SECRET = "0123456789abcdef"  # noqa: S105


ONE_MODEL = 'lake = "lake"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "m"\n'


def write(tmp_path: pathlib.Path, more: str = "") -> pathlib.Path:
    path = tmp_path / "privaudit.toml"
    path.write_text(ONE_MODEL + more, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "url",
    [
        "http://alerts.example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1:80@example.com/",
        "https://name:password@example.com/",
        "https:///path",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_webhook_may_lead_nowhere_else(url, tmp_path):
    with pytest.raises(SettingsError) as refused:
        load_settings(write(tmp_path, f'[webhook]\nurl = "{url}"\nsecret = "{SECRET}"\n'))
    assert "webhook.url" in str(refused.value)
    assert ("write an https:// address" in str(refused.value)) is ("password" not in url)
    assert SECRET not in str(refused.value)
    assert "password" not in str(refused.value).replace("a name or password", "")
    for here in ("https://alerts.example/hook", "http://localhost:8080/hook", "http://[::1]:8080/"):
        more = f'[webhook]\nurl = "{here}"\nsecret = "{SECRET}"\n'
        webhook = load_settings(write(tmp_path, more)).webhook
        assert webhook.url == here


def test_a_model_that_is_no_name_is_no_folder(tmp_path):
    """The audit refuses it as one model's, so that the other models' audits go on."""
    settings = load_settings(write(tmp_path, '[[models]]\nname = "../../etc"\n'))
    assert settings.models[1].name == "../../etc"
    with pytest.raises(NotEvaluableError) as refused:
        checkpoint_folder(settings.models[1].name, dt.date(2026, 3, 2))
    assert refused.value.reason == Reason.NAME_INVALID


@pytest.mark.parametrize("linked", [False, True], ids=["file", "link"])
def test_another_users_file_in_the_working_folder_has_to_be_named(linked, tmp_path, monkeypatch):
    """Somebody leaves it in a shared folder: a command that is started there obeyed it."""
    path = write(tmp_path)
    if linked:
        path = path.rename(tmp_path / "own.toml")
        (tmp_path / "privaudit.toml").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert load_settings().models[0].name == "m"
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        os.lchown(tmp_path / "privaudit.toml", 12_345, -1)
    with pytest.raises(SettingsError, match="belongs to another user"):
        load_settings()
    assert load_settings("privaudit.toml").models[0].name == "m"
    monkeypatch.setenv("PRIVAUDIT_CONFIG", "privaudit.toml")
    assert load_settings().models[0].name == "m"


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("declared_at", "0001-01-01T00:00:00+14:00", "before the year 1"),
        ("delta", "5e-324", "write 0"),
    ],
)
def test_a_declaration_in_the_settings_that_no_manifest_could_make_is_refused_there(
    tmp_path, field, value, why
):
    """It was met when the night looked for inputs, and no model was audited."""
    declares = (
        'scores = { table = "scores", label = "late", target = "new", proxy = "old" }\n'
        f"privacy = {{ epsilon = 0.5, {field} = {value} }}\n"
    )
    with pytest.raises(SettingsError, match=why):
        load_settings(write(tmp_path, declares))


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "", "x" * 2_000])
def test_a_model_in_the_settings_has_a_name_of_one_line(tmp_path, name):
    escaped = "".join(f"\\u{ord(each):04x}" for each in name)
    with pytest.raises(SettingsError, match=r"models\.1\.name"):
        load_settings(write(tmp_path, f'[[models]]\nname = "{escaped}"\n'))


LONG_SECRET = "c0ffee" * 12


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PLAN", '{"seed": '),
        ("PLAN", "[" * 100_000),
        ("PLAN", '{"seed": 1, "seed": "x"}'),
        ("PLAN__SIGNIFICANCE", "1e999"),
        ("PLAN__SIGNIFICANCE", "nan"),
        ("MODELS", '[{"name": "m", "interface": "os.system"}]'),
        ("PUBLICATION", f'{{"statements": "s", "key": "{LONG_SECRET}", "epsilon": -1}}'),
        ("WEBHOOK__URL", f"http://user:{LONG_SECRET}@elsewhere.example/"),
        ("WEBHOOK", f'{{"url": "ftp://elsewhere.example", "secret": "{LONG_SECRET}"}}'),
    ],
)
def test_a_strange_value_of_the_environment_is_refused_without_its_secret(
    variable, value, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    load_settings(None)
    monkeypatch.setenv(f"PRIVAUDIT_{variable}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings(None)
    assert LONG_SECRET not in str(refused.value)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize("value", ["[" * 10_000, "9" * 5_000])
def test_settings_that_cannot_be_read_are_said_to_be_so(tmp_path, value):
    """Depth and long numbers ended a command as an unexpected error."""
    path = tmp_path / "privaudit.toml"
    path.write_text(f"lake = {value}\n")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load_settings(path)

"""Settings, from the file or the environment, run nothing and lead nowhere unsafe."""

import datetime as dt
import os
import pathlib

import pytest

from flows.settings import SettingsError, load_settings
from tests.support.lake import DAY, PLAN, declared, edit_manifest, small_lake, write_settings
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake.layout import checkpoint_folder

SECRET = "0123456789abcdef"  # noqa: S105


def write(tmp_path: pathlib.Path, more: str = "") -> pathlib.Path:
    path = tmp_path / "privaudit.toml"
    path.write_text(
        'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n'
        f'[[models]]\nname = "m"\n{more}',
        encoding="utf-8",
    )
    return path


EXPRESSIONS = [
    "$(touch witness)",
    "`touch witness`",
    "${HOME}",
    "{{ 7 * 7 }}",
    "__import__('os').system('touch witness')",
    "!!python/object/apply:os.system ['touch witness']",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_environment_gives_values_and_runs_nothing(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVAUDIT_RAY__ADDRESS", text)
    assert load_settings(write(tmp_path)).ray.address == text
    assert not (tmp_path / "witness").exists()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_complex_value_of_the_environment_is_json_or_refused(
    text: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVAUDIT_MODELS", text)
    with pytest.raises(SettingsError):
        load_settings(write(tmp_path))
    assert not (tmp_path / "witness").exists()


def test_a_python_file_in_the_place_of_settings_is_not_run(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "privaudit.toml"
    path.write_text(f"open({str(tmp_path / 'witness')!r}, 'w')\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load_settings(path)
    assert not (tmp_path / "witness").exists()


@pytest.mark.parametrize(
    "url", ["https://alerts.example.com/x", "http://127.0.0.1:8000/", "http://[::1]/"]
)
def test_a_webhook_may_be_https_or_this_machine(url: str, tmp_path: pathlib.Path) -> None:
    settings = load_settings(write(tmp_path, f'[webhook]\nurl = "{url}"\nsecret = "{SECRET}"\n'))
    assert settings.webhook is not None
    assert settings.webhook.url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://alerts.example.com/",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "http://localhost@example.com/",
        "http://127.0.0.1:80@example.com/",
        "https://name:password@example.com/",
        "https://",
        "https:///path",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://127.0.0.1/",
        "javascript:alert(1)",
        "//example.com/",
        "",
    ],
)
def test_a_webhook_may_lead_nowhere_else(url: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(write(tmp_path, f'[webhook]\nurl = "{url}"\nsecret = "{SECRET}"\n'))
    assert "webhook.url" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "password" not in str(refused.value).replace("a name or password", "")


def test_a_model_that_is_no_name_is_no_folder(tmp_path: pathlib.Path) -> None:
    """The audit refuses it as one model's, so that the other models' audits go on."""
    settings = load_settings(write(tmp_path, '[[models]]\nname = "../../etc"\n'))
    assert settings.models[1].name == "../../etc"
    with pytest.raises(NotEvaluableError) as refused:
        checkpoint_folder(settings.models[1].name, dt.date(2026, 3, 2))
    assert refused.value.reason == Reason.NAME_INVALID


@pytest.mark.parametrize("linked", [False, True], ids=["file", "link"])
def test_another_users_file_in_the_working_folder_has_to_be_named(
    linked: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ("unit", '"cust\u043emer"', "mixes letters of Cyrillic and Latin"),
        ("unit", '"cus\\u00adtomer"', "holds characters that no reader sees"),
        ("declared_at", "0001-01-01T00:00:00+14:00", "before the year 1"),
        ("delta", "5e-324", "write 0"),
    ],
)
def test_a_declaration_in_the_settings_that_no_manifest_could_make_is_refused_there(
    tmp_path: pathlib.Path, field: str, value: str, why: str
) -> None:
    """It was met when the night looked for inputs, and no model was audited."""
    path = write_settings(tmp_path, ["good"])
    text = path.read_text(encoding="utf-8")
    declares = (
        'scores = { table = "scores", label = "late", target = "new", proxy = "old" }\n'
        f"privacy = {{ epsilon = 0.5, {field} = {value} }}\n"
    )
    path.write_text(text.replace("[plan]", f"{declares}[plan]"), encoding="utf-8")
    with pytest.raises(SettingsError, match=why):
        load_settings(path)


def test_a_delta_that_arithmetic_cannot_hold_is_no_declaration(tmp_path: pathlib.Path) -> None:
    """The audit ended with a division by zero, as an unexpected error."""
    lake = small_lake(tmp_path / "lake")
    edit_manifest(lake, "good", DAY, privacy=declared(0.5, delta=5e-324))
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.verdict, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason
    assert "delta 4.94066e-324 is above 0 and below 1e-100: write 0" in row.reason

"""Settings, from the file or the environment, run nothing, lead nowhere unsafe and stay bounded."""

import datetime as dt
import os
import pathlib
import time

import pytest
from pydantic import ValidationError

from flows.settings import SettingsError, load_settings
from flows.settings.file import Settings
from flows.settings.problems import problems, toml_hint
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, PLAN, declared, edit_manifest, small_lake, write_settings
from workers.audit.run import run_audit
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import InProcess
from workers.lake.layout import checkpoint_folder
from workers.lake.places import check_uri
from workers.plan import Plan
from workers.sources.tables.holdout import HoldoutRule, parse_holdout

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


def test_settings_without_end_are_refused(tmp_path: pathlib.Path) -> None:
    """A person who may start a flow names the file: the first took all memory."""
    with pytest.raises(SettingsError, match="is no plain file"):
        load_settings("/dev/zero")
    path = tmp_path / "privaudit.toml"
    with path.open("wb") as file:
        file.truncate((4 << 20) + 1)
    with pytest.raises(SettingsError, match="is no settings file"):
        load_settings(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"fractions": (0.5,) * 1001},
        {"slices": tuple(f"c{number}" for number in range(101))},
        {"secrets": {f"s{number}": 0.5 for number in range(101)}},
    ],
    ids=["fractions", "slices", "secrets"],
)
def test_a_plan_without_end_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="at most"):
        Plan.model_validate(changes)
    name, values = next(iter(changes.items()))
    fewer = dict(list(values.items())[:-1]) if isinstance(values, dict) else values[:-1]  # type: ignore[index]
    assert Plan.model_validate({name: fewer})


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "", "x" * 2_000])
def test_a_model_in_the_settings_has_a_name_of_one_line(tmp_path: pathlib.Path, name: str) -> None:
    place = write_settings(tmp_path, ["good"])
    escaped = "".join(f"\\u{ord(each):04x}" for each in name)
    place.write_text(place.read_text("utf-8").replace('"good"', f'"{escaped}"'), "utf-8")
    with pytest.raises(SettingsError, match=r"models\.0\.name"):
        load_settings(place)


ONE_MODEL = 'lake = "lake"\nwarehouse = "w"\nreport = "r"\n[[models]]\nname = "m"\n'


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
    variable: str, value: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "privaudit.toml").write_text(ONE_MODEL, encoding="utf-8")
    load_settings(None)
    monkeypatch.setenv(f"PRIVAUDIT_{variable}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings(None)
    assert LONG_SECRET not in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_blanks_and_percent_signs_of_settings_are_read_at_once() -> None:
    """300,000 blanks in one model's settings took ten minutes of the night of all models."""
    begun = time.process_time()
    for text in ("bucket(a" + " " * 200_000, "a" + " " * 200_000 + "b", "bucket(" + " " * 200_000):
        with pytest.raises(ValueError, match="is not a rule"):
            parse_holdout(text)
    assert parse_holdout("bucket( 'a b' , 5 ) = 0") == HoldoutRule("a b", "0", 5)
    assert parse_holdout(" fold = 4") == HoldoutRule("fold", "4")
    with pytest.raises(TerminalError, match="more than the 8,192"):
        check_uri("s3://a/%" + "25" * 100_000)
    assert toml_hint("\n" * 100_000) == ""
    assert "with its seconds" in toml_hint("[a]\n  deadline = 9:00  # early\n")
    assert time.process_time() - begun < 1.0


def test_problems_of_many_lists_are_told_in_a_second() -> None:
    """Each list that was too short was compared with all problems: 4 MiB would have taken hours."""
    models = [{"name": f"m{place}", "plan": {"fractions": []}} for place in range(3_000)]
    with pytest.raises(ValidationError) as error:
        Settings.model_validate({"models": models})
    begun = time.process_time()
    told = problems(error.value, Settings)
    assert sum("plan.fractions" in one for one in told) == 3_000
    assert time.process_time() - begun < 0.4


@pytest.mark.parametrize("value", ["[" * 10_000, "9" * 5_000])
def test_settings_that_cannot_be_read_are_said_to_be_so(tmp_path: pathlib.Path, value: str) -> None:
    """Depth and long numbers ended a command as an unexpected error."""
    path = tmp_path / "privaudit.toml"
    path.write_text(f"lake = {value}\n")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load_settings(path)


def test_settings_of_many_dots_are_refused_before_they_are_parsed(tmp_path: pathlib.Path) -> None:
    """100,000 of them in one key took minutes."""
    path = tmp_path / "privaudit.toml"
    path.write_text("a." * 100_000 + "a = 1\n")
    with pytest.raises(SettingsError, match="has a key of over 16 parts"):
        load_settings(path)

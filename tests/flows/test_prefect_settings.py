import pytest
from prefect.settings.models.root import Settings

from flows.prefect_settings import check_settings
from privcore.exceptions import TerminalError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a working folder in which Prefect's settings are read anew, as by a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PREFECT_PROFILES_PATH", raising=False)
    monkeypatch.setattr("prefect.settings.get_current_settings", Settings)
    return tmp_path


REFUSED = "refuses .*max_retries: Input should be"
PROFILE = 'active = "x"\n[profiles.x]\nPREFECT_CLIENT_MAX_RETRIES = "abc"\n'


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (".env", "PREFECT_CLIENT_MAX_RETRIES=abc\n", REFUSED),
        ("home/profiles.toml", PROFILE, REFUSED),
        ("prefect.toml", '[client]\nmax_retries = "abc"\n', REFUSED),
        ("home/profiles.toml", 'active = "x\n', r"cannot read .*home/profiles.toml \(Illegal"),
    ],
)
def test_a_refused_setting_of_a_file_is_named(folder, file, text, words):
    check_settings()
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    with pytest.raises(TerminalError, match=rf"(?i)^Prefect {words}"):
        check_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFECT_CLIENT_MAX_RETRIES", "abc"),
        ("PREFECT_LOGGING_LEVEL", "loud"),
        ("PREFECT_CLIENT_CUSTOM_HEADERS", "{"),
    ],
)
def test_a_refused_variable_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    last = name.rpartition("_")[2]
    with pytest.raises(TerminalError, match=rf"(?i)^Prefect refuses a setting .*{last}"):
        check_settings()

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


PROFILE = 'active = "x"\n[profiles.x]\nPREFECT_CLIENT_MAX_RETRIES = "abc"\n'


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".env", "PREFECT_CLIENT_MAX_RETRIES=abc\n"),
        ("home/profiles.toml", PROFILE),
        ("prefect.toml", '[client]\nmax_retries = "abc"\n'),
    ],
)
def test_a_refused_setting_of_a_file_is_named(folder, file, text):
    check_settings()
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    with pytest.raises(TerminalError, match=r"(?i)^Prefect refuses .*max_retries: Input should be"):
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


def test_a_file_that_is_no_toml_is_named(folder):
    (folder / "home").mkdir()
    (folder / "home/profiles.toml").write_text('active = "x\n')
    with pytest.raises(TerminalError, match=r"^Prefect cannot read .*home/profiles.toml \(Illegal"):
        check_settings()

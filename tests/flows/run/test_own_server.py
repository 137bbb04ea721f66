"""A Prefect server of the command's own: started where none is named, waited for, and ended."""

import os
import pathlib
import stat
import subprocess
import sys
import time

import pytest

from flows.run import own_server
from flows.run.own_server import (
    names_a_server,
    own_server_started,
    start_own_server,
)


@pytest.fixture(autouse=True)
def nobody_names_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty home and working folder, and no server started; what is set is taken back."""
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.setenv(name, "taken back afterwards, whoever sets it")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.delitem(sys.modules, "prefect")  # which would say what the test session has set
    monkeypatch.setattr(own_server, "_started", [])
    monkeypatch.setattr(own_server.atexit, "register", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interpreter(folder: pathlib.Path, script: str) -> str:
    """Return the path of a program that does this instead of what it is asked for."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("home/profiles.toml", 'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "http://x"\n'),
        (".env", "PREFECT_API_URL=http://x\n"),
        ("prefect.toml", "[api]\n"),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://x"\n'),
    ],
    ids=["profile", ".env", "prefect.toml", "pyproject.toml"],
)
def test_what_prefects_settings_name_is_left_to_prefect(
    tmp_path: pathlib.Path, place: str, content: str
) -> None:
    assert not names_a_server()
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(content, encoding="utf-8")
    assert names_a_server()
    start_own_server()
    assert not own_server_started()
    with own_server.own_server():
        pass  # waits for nobody
    assert "PREFECT_API_URL" not in os.environ


def test_a_server_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    start_own_server()
    assert not own_server_started()
    assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:9/api"


def test_one_server_is_enough(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "exec sleep 60"))
    start_own_server()
    start_own_server()
    (server,) = own_server._started
    assert own_server_started()
    own_server._stop(server)
    assert server.returncode == -15


def test_a_server_that_ends_before_it_answers_is_an_error_and_no_wait(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "exit 7"))
    start_own_server()
    told = "ended before it answered, with exit code 7"
    with pytest.raises(RuntimeError, match=told), own_server.own_server():
        raise AssertionError


def test_a_server_that_never_answers_is_an_error_in_the_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "0.2")
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "exec sleep 60"))
    start_own_server()
    told = r"did not answer within 0\.2 seconds"
    with pytest.raises(RuntimeError, match=told), own_server.own_server():
        raise AssertionError
    own_server._stop(own_server._started[0])


def test_a_server_that_does_not_end_is_killed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_server, "_GRACE", 0.2)
    script = "trap '' TERM; echo ready; while true; do sleep 1; done"
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    server = subprocess.Popen([sys.executable], stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    own_server._stop(server)
    assert server.returncode == -9


SCRIPT = """
import sys
import time
import flows
from flows.run.own_server import _started, own_server, own_server_started, start_own_server

start_own_server()
import prefect
from flows.run.slots import _stands

with own_server(), prefect.get_client(sync_client=True) as client:
    assert client.api_healthcheck() is None
    assert client.read_deployments() == []
    assert own_server_started() and not _stands()
    print(_started[0].pid, flush=True)
    if "lost" in sys.argv:
        _started[0].kill()
        time.sleep(60)
"""


def spoken_to(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True, text=True, check=False, timeout=280,
        env={name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
        | {"PREFECT_HOME": str(folder / "home")},
    )  # fmt: skip


@pytest.mark.slow
def test_prefect_speaks_to_it_and_it_ends_with_the_process(tmp_path: pathlib.Path) -> None:
    done = spoken_to(tmp_path)
    assert done.returncode == 0, done.stderr
    assert not pathlib.Path(f"/proc/{int(done.stdout)}").exists()


@pytest.mark.slow
def test_where_it_is_lost_the_process_ends_at_once_and_says_why(tmp_path: pathlib.Path) -> None:
    begun = time.monotonic()
    done = spoken_to(tmp_path, "lost")
    assert done.returncode == 3
    assert "privaudit: Prefect's temporary server ended in the middle of it, by SIGKILL.\n" in (
        done.stderr
    )
    assert time.monotonic() - begun < 50.0

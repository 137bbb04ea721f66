"""Attempts of a child that was taken over, and files that other users of the machine can read."""

import os
import pathlib
import socket
import stat
import subprocess
import sys
import time

import pytest

from privcore.exceptions import TerminalError
from tests.support.boundary import contained
from tests.support.contained_calls import attempt, environments, trusted
from workers import executors, isolation
from workers.contained import closed_here
from workers.warehouse.sql import _connect

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANTED = "planted-secret-of-the-parent"

CLOSED = pytest.mark.skipif(
    len(closed_here()) < 3, reason="this machine grants no namespaces, or its kernel no Landlock"
)


@pytest.fixture(params=["kept", "forked", "asking"])
def call(request):
    """Yield a contained process; `asking` is one that asks storage itself."""
    storage = {"environment": ("HOME",)} if request.param == "asking" else {}
    with contained(attempt, fork=request.param != "kept", **storage) as made:
        yield made


@pytest.fixture
def parent():
    """Yield another process of this user that has a credential, as a worker of Ray has."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"AWS_SECRET_ACCESS_KEY": PLANTED},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        yield process
        process.kill()


@CLOSED
def test_no_other_process_can_be_read_or_signalled(call, parent):
    assert environments(PLANTED) != {"found": []}  # an ordinary process reads it
    assert call(what="environment", about=PLANTED) == {"found": []}
    for what in ("memory", "signal"):
        assert "denied" in call(what=what, about=str(parent.pid)), what
        assert "denied" in call(what=what, about=str(os.getpid())), what
    assert parent.poll() is None


@CLOSED
def test_no_file_is_deleted_moved_or_made(call, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("labels")
    for what in ("delete", "rename", "folder"):
        assert call(what=what, about=str(kept)) == {"denied": "PermissionError"}, what
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@CLOSED
def test_only_who_asks_storage_has_the_network_and_knows_hosts_and_authorities(call):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connected = call(what="connect", about=str(listening.getsockname()[1]))
    assert ("connected" in connected) == call._given["asking"]
    if call._given["asking"]:
        assert call(what="trust", about="") == trusted("")


@CLOSED
def test_a_call_reads_the_files_that_it_is_given_and_no_others(call, tmp_path):
    """A child that is kept serves calls of different files, so none of them is given one."""
    given, other = tmp_path / "given", tmp_path / "other"
    for folder in (given, other):
        folder.mkdir()
        (folder / "labels").write_text("personal")
    (given / "link").symlink_to(other / "labels")
    read = call(what="read", about=str(given / "labels"), readable=[str(given)])
    assert ("read" in read) == call._fork
    denied = {"denied": "PermissionError"}
    for path in (other / "labels", given / "link", pathlib.Path("/etc/shadow")):
        assert call(what="read", about=str(path), readable=[str(given)]) == denied, path
    assert call(what="read", about=str(given / "labels")) == denied


def test_no_call_answers_the_next_one_or_reads_its_question(call):
    """A kept child serves several calls, of bytes that take no process over."""
    if not call._fork:
        pytest.skip("its calls share one process")
    for what in ("forge", "steal"):
        call(what=what, about="a figure of the next model")
        for _ in range(2):
            assert "denied" in call(what="folder", about="/proc/folder"), what


@pytest.fixture(params=[False, True], ids=["kept", "forked"])
def unfiltered(request):
    """Yield a contained process that may fork, as on a processor whose calls no filter knows."""
    with contained("tests.support.unfiltered_calls:attempt", fork=request.param) as made:
        yield made


@CLOSED
def test_no_process_meets_the_next_call_or_outlives_its_child(unfiltered):
    """But for one that asks storage: it shares the processes of the machine."""
    call, name = unfiltered, f"left-{os.getpid() % 10**7}"
    assert call(what="leave", about=name) == {"left": name}
    if call._fork:  # calls of a kept one share processes
        assert "denied" in call(what="folder", about="/proc/folder")
        assert not _runs(name)
    call.stop()
    deadline = time.monotonic() + 10.0
    while _runs(name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(name)


def _runs(name: str) -> bool:
    done = subprocess.run(["ps", "-eo", "comm="], capture_output=True, text=True, check=True)
    return name in done.stdout.split()


def test_a_call_opens_few_files(call):
    assert call(what="open", about="") == {"denied": "OSError"}


def test_what_is_made_here_is_its_owners_alone(tmp_path):
    """In this process, and in whatever it starts."""
    old = tmp_path / "old"
    old.write_text("opened on purpose")
    old.chmod(0o644)
    code = (
        "import pathlib, subprocess, sys; import workers\n"
        "old, new = map(pathlib.Path, sys.argv[1:])\n"
        "old.write_text('again'); new.mkdir(); (new / 'file').write_text('rows')\n"
        "subprocess.run(['touch', str(new / 'by a child')], check=True)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, old, tmp_path / "new"], check=True, umask=0o022, cwd=ROOT
    )
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert made == {"old": 0o644, "new": 0o700, "file": 0o600, "by a child": 0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_process_of_the_same_user_cannot_read_the_environment():
    """Root reads everything, so both are another user here."""
    somebody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    read = {}
    for modules in ("sys", "sys, workers"):
        code = f"import {modules}; print(flush=True); sys.stdin.read()"
        with subprocess.Popen(
            [*somebody, sys.executable, "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        ) as process:  # fmt: skip
            assert process.stdout.readline() == b"\n"
            reader = [*somebody, "cat", f"/proc/{process.pid}/environ"]
            read[modules] = subprocess.run(reader, capture_output=True, check=False).returncode
            process.kill()
    assert read == {"sys": 0, "sys, workers": 1}


def test_a_temporary_folder_is_its_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation.tempfile, "gettempdir", lambda: str(tmp_path))
    # A longer name than this would be too long for the sockets below it.
    assert isolation.private_folder().parent == pathlib.Path("/tmp")  # noqa: S108
    monkeypatch.setattr(isolation, "_LONGEST", len(str(tmp_path)))
    folder = isolation.private_folder()
    assert folder.parent == tmp_path
    folder.chmod(0o755)
    assert isolation.private_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)
    refusal = "belongs to another user or is not a folder: remove it, or set TMPDIR"
    with pytest.raises(TerminalError, match=refusal):
        isolation.private_folder()
    folder.unlink()
    folder.write_text("a file in its place")
    with pytest.raises(TerminalError, match=refusal):
        isolation.private_folder()


@pytest.mark.parametrize("place", ["ray", ""])
def test_a_file_in_the_place_of_rays_folder_ends_in_a_sentence(place, tmp_path, monkeypatch):
    chosen = tmp_path / "chosen"
    if place:
        chosen.mkdir()
    (chosen / place).write_text("no folder")
    monkeypatch.setenv("RAY_TMPDIR", str(chosen))
    with pytest.raises(TerminalError, match=r"Ray cannot keep its files in .*set RAY_TMPDIR to"):
        executors._folder_of_ray()


def python(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    kept = {name: value for name, value in os.environ.items() if "POLARS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=kept | environment,
    )  # fmt: skip
    return done.stdout


def test_polars_sweeps_no_folder_that_another_user_made():
    """One in /var/tmp that led to a folder of ours had its numbered folders deleted."""
    told = python(
        "import os, sys, flows; print('polars' in sys.modules, os.environ['POLARS_OOC_SPILL_DIR'])"
    )
    assert told.split() == ["False", str(isolation.private_folder() / "polars")]


def test_polars_obeys_the_place_that_it_is_given(tmp_path):
    (tmp_path / "4194305").mkdir()  # of a process that cannot be: no number is as large
    python("import polars, time; time.sleep(0.3)", POLARS_OOC_SPILL_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_what_fits_in_no_memory_goes_to_a_folder_of_its_own():
    """It went to .tmp of the working folder, which another user may have made."""
    with _connect() as connection:
        asked = connection.execute("select current_setting('temp_directory')").fetchone()
        assert pathlib.Path(asked[0]).is_absolute()
        assert pathlib.Path(asked[0]).stat().st_mode & 0o077 == 0

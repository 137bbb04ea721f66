"""A PostgreSQL server of our own, of whatever version this machine has."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

import pytest

_START_SECONDS = 60.0


class Server:
    """A running server, which trusts whoever comes from this machine.

    Attributes:
        port: on which it listens, of 127.0.0.1.
        user: its superuser.
    """

    def __init__(self, program: pathlib.Path, folder: str, user: str) -> None:
        self.port, self.user = free_port(), user
        self._ready = program.with_name("pg_isready")
        self._command = [
            *_as_user(), program, "-D", f"{folder}/data", "-p", str(self.port), "-k", "",
            "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
        ]  # fmt: skip
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            asked = [self._ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(asked, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"PostgreSQL did not start within {_START_SECONDS} seconds.")

    def uri(self, password: str = "", *, driver: str = "") -> str:
        """Return its address; `driver` as SQLAlchemy writes it, a password that it never asks."""
        user = f"{self.user}:{password}" if password else self.user
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{user}@127.0.0.1:{self.port}/postgres"

    def kill(self) -> None:
        """End it with all its connections, as a lost machine would."""
        self.send(signal.SIGKILL)
        self._process.wait(30)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, like the one that stops them."""
        for process in [*children(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)


def children(process: int) -> list[int]:
    """Return all descendants of a process, the deepest first; of one that has ended, none."""
    direct: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            direct += map(int, (task / "children").read_text().split())
    return [one for child in direct for one in (*children(child), child)]


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextlib.contextmanager
def postgresql(user: str = "audit") -> Iterator[Server]:
    """Run a server until the block ends; the test is skipped where none is installed."""
    program = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)
    if program is None:
        pytest.skip("no PostgreSQL server is installed")
    with tempfile.TemporaryDirectory(prefix="privaudit-postgresql-") as folder:
        if _as_user():
            shutil.chown(folder, "postgres")
        subprocess.run(
            [*_as_user(), program.with_name("initdb"), "-D", f"{folder}/data", "-A", "trust",
             "-U", user, "--no-sync", "--encoding=UTF8"],
            check=True, capture_output=True, cwd="/",
        )  # fmt: skip
        server = Server(program, folder, user)
        try:
            yield server
        finally:
            server.kill()


def _as_user() -> Sequence[str]:
    """Return a command's first words: the server refuses to run as root.

    Another user cannot enter pytest's folders, either.
    """
    return ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []

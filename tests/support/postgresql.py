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
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, which trusts whoever comes from this machine.

    Attributes:
        port: on which it listens, of 127.0.0.1.
        user: its superuser.
        process: its first process.
    """

    port: int
    user: str
    process: int

    def uri(self, password: str = "", *, driver: str = "", database: str = "postgres") -> str:
        """Return its address; `driver` as SQLAlchemy writes it, a password that it never asks."""
        user = f"{self.user}:{password}" if password else self.user
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{user}@127.0.0.1:{self.port}/{database}"

    def kill(self) -> None:
        """End it with all its connections, as a lost machine would."""
        for process in [*children(self.process), self.process]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, like the one that stops them."""
        for process in [*children(self.process), self.process]:
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
    # It refuses to run as root, and another user cannot enter pytest's folders.
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="privaudit-postgresql-") as folder:
        if as_user:
            shutil.chown(folder, "postgres")
        port = free_port()
        subprocess.run(
            [*as_user, program.with_name("initdb"), "-D", f"{folder}/data", "-A", "trust",
             "-U", user, "--no-sync", "--encoding=UTF8"],
            check=True, capture_output=True, cwd="/",
        )  # fmt: skip
        process = subprocess.Popen(
            [*as_user, program, "-D", f"{folder}/data", "-p", str(port), "-k", "",
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
            cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        server = Server(port, user, process.pid)
        try:
            _await(server, program.with_name("pg_isready"))
            yield server
        finally:
            server.kill()
            process.wait(30)


def _await(server: Server, ready: pathlib.Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        asked = [ready, "-q", "-h", "127.0.0.1", "-p", str(server.port)]
        if subprocess.run(asked, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"The PostgreSQL server did not start within {_START_SECONDS} seconds.")

"""A night of eight models as a person's command, its processes, and what it leaves behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

from tests.hostile.night import EIGHTH, GOOD
from tests.support.lake import DAY
from workers.warehouse.store import Warehouse

MODELS = sorted([*GOOD, EIGHTH])
SECONDS = 600.0
_GRACE = 60.0
"""Seconds in which Ray's processes end after the one that started them."""
_PRIVAUDIT = str(pathlib.Path(sys.executable).with_name("privaudit"))


class Watched:
    """A night that runs: `command` is what runs it, `environment` is added to this process's."""

    def __init__(
        self, folder: pathlib.Path, *command: str, environment: dict[str, str] | None = None
    ) -> None:
        self.folder, self._tag = folder, f"PRIVAUDIT_TAG={uuid.uuid4()}"
        self._errors = folder / "errors.txt"
        name, value = self._tag.split("=")
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, _PRIVAUDIT, "night", "--day", str(DAY)],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=os.environ | {name: value} | (environment or {}),
            )

    def processes(self, part: str = "") -> dict[int, str]:
        """Return all that runs on behalf of this night and has a part in its command line."""
        return {
            process: command
            for process, command, environment in _running()
            if self._tag in environment and part in command
        }

    def wait_for(self, part: str) -> None:
        """Wait until such a process runs, or the night has ended."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if self.processes(part):
                return
            time.sleep(0.1)

    def kill(self, part: str) -> None:
        """Kill all such processes that run now."""
        for process in self.processes(part):
            _send(process, signal.SIGKILL)

    def end(self) -> int:
        """Wait for the end and return the exit code; nothing may be left behind."""
        code = self.process.wait(timeout=SECONDS)
        end = time.monotonic() + _GRACE
        while (left := self._left()) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == {}, f"{self.said()}\n{left}"
        return code

    def _left(self) -> dict[int, str]:
        """Return what still runs, but Ray's two agents: they outlive its store of cluster state."""
        agents = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
        left = self.processes()
        return {process: name for process, name in left.items() if not name.startswith(agents)}

    def said(self) -> str:
        """Return what it said on standard error, but for events and Ray's own lines."""
        lines = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if line.startswith("privaudit:"))

    def all_said(self) -> str:
        """Return all that it said on standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def records(self) -> dict[str, str]:
        """Return each model's status."""
        audits = Warehouse(str(self.folder / "warehouse")).scan("audits").collect()
        assert audits["model"].is_unique().all()
        return dict(audits.select("model", "status").sort("model").iter_rows())


def _running() -> Iterator[tuple[int, str, list[str]]]:
    """Yield every process with its command line and its environment."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue
        yield (
            int(folder.name),
            command.replace(b"\0", b" ").decode(errors="replace"),
            environment.decode(errors="replace").split("\0"),
        )


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return

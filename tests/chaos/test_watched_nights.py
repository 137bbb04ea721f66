"""Whatever ends a part of a night: nothing left running, and another start has every record.

Faults come at moments drawn from the seed 0, to nights of eight models that a command carries.
"""

import contextlib
import datetime as dt
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import pytest

from flows.run.nightly import overdue_models
from flows.settings import load_settings
from tests.hostile.night import EIGHTH, GOOD, make_template
from tests.support.lake import DAY, write_settings
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.slow

MODELS = sorted([*GOOD, EIGHTH])
EVALUATED = dict.fromkeys(MODELS, "evaluated")
SECONDS = 600.0
_GRACE = 60.0
"""Seconds in which Ray's processes end after the one that started them."""
_MOMENTS = 10.0
"""Seconds after Ray's start in which a fault may come."""
_BIN = pathlib.Path(sys.executable).parent


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
                [*command, _BIN / "privaudit", "night", "--day", str(DAY)],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=errors,
                env=os.environ | {name: value} | (environment or {}),
            )  # fmt: skip

    def processes(self, part: str = "") -> dict[int, str]:
        """Return all that runs on behalf of this night and has a part in its command line."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if self._tag.encode() in (folder / "environ").read_bytes() and part in command:
                    found[int(folder.name)] = command
        return found

    def wait_for_ray(self, *, longest: float = _MOMENTS, chance: random.Random) -> None:
        """Wait until a moment after Ray's start, or until the night has ended."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if self.processes("raylet/raylet"):
                time.sleep(chance.uniform(0.0, longest))
                return
            time.sleep(0.1)

    def kill(self, part: str) -> None:
        """Kill all such processes that run now."""
        for process in self.processes(part):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

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
        lines = self.all_said().splitlines()
        return "\n".join(line for line in lines if line.startswith("privaudit:"))

    def all_said(self) -> str:
        """Return all that it said on standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def records(self) -> dict[str, str]:
        """Return each model's status."""
        audits = Warehouse(str(self.folder / "warehouse")).scan("audits").collect()
        assert audits["model"].is_unique().all()
        return dict(audits.select("model", "status").sort("model").iter_rows())

    def pages(self) -> list[str]:
        """Return the models that have a page in the report."""
        return sorted(page.stem for page in (self.folder / "report" / "models").glob("*.html"))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    make_template(folder / "lake")
    write_settings(folder, MODELS)
    return folder


@pytest.fixture
def folder(template, tmp_path):
    shutil.copytree(template, tmp_path / "night")
    yield tmp_path / "night"
    shutil.rmtree(tmp_path, ignore_errors=True)


@contextlib.contextmanager
def small_disk(place: pathlib.Path, size: str, *more: str) -> Iterator[None]:
    """Mount a file system of so many bytes."""
    place.mkdir(exist_ok=True)
    options = ",".join([f"size={size}", *more])
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(place)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


ENDS: dict[str, Callable[[Watched], None]] = {
    "raylet": lambda night: night.kill("raylet/raylet"),
    "cluster-store": lambda night: night.kill("gcs/gcs_server"),
    "driver": lambda night: night.process.kill(),
    "Ctrl-C": lambda night: night.process.send_signal(signal.SIGINT),
    "SIGTERM": lambda night: night.process.send_signal(signal.SIGTERM),
}
# Ray's processes wait a minute for a store of cluster state that is gone.
SOON = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}


def test_a_night_that_ends_five_times_is_completed_by_a_sixth_start(folder):
    """Each start has a model more to audit, so that none comes to an end that was made before."""
    chance = random.Random(0)  # noqa: S311
    for number, (fault, ends) in enumerate(ENDS.items(), 3):
        listed = MODELS[:number]
        write_settings(folder, listed)
        night = Watched(folder, environment=SOON)
        night.wait_for_ray(chance=chance)
        ends(night)
        asked = time.monotonic()
        code, before = night.end(), night.records()
        if fault == "Ctrl-C":
            assert code == 130, night.all_said()
            assert "Run the same command again to go on" in night.said()
        if fault in {"Ctrl-C", "SIGTERM"}:
            assert time.monotonic() - asked < 60.0
        if before != dict.fromkeys(listed, "evaluated"):
            # A Ray whose parts are lost may end the command with 1, which is also violated's code:
            # what counts are the records.
            assert code not in {0, 2}, night.all_said()
            assert "violated" not in night.all_said()
            assert _overdue(folder, listed) == sorted(set(listed) - set(before))
    write_settings(folder, MODELS)
    again = Watched(folder)
    assert again.end() == 0, again.all_said()
    assert (again.records(), again.pages()) == (EVALUATED, MODELS), again.all_said()


def _overdue(folder: pathlib.Path, listed: list[str]) -> list[str]:
    """Return the models that `privaudit overdue` names."""
    settings = load_settings(folder / "privaudit.toml")
    deadline = max(settings.deadline_of(model, DAY) for model in listed)
    return sorted(overdue_models(settings, DAY, now=deadline + dt.timedelta(seconds=1)))


def test_four_lost_helpers_cost_nobody_a_figure(folder):
    chance = random.Random(0)  # noqa: S311
    night = Watched(folder)
    for _ in range(4):
        night.wait_for_ray(longest=_MOMENTS / 4, chance=chance)
        night.kill(chance.choice(("ray::", "workers.contained")))
    assert night.end() == 0, night.all_said()
    assert (night.records(), night.pages()) == (EVALUATED, MODELS)


def test_a_full_warehouse_is_said_with_its_path(folder):
    with small_disk(folder / "warehouse", "100k"):
        night = Watched(folder)
        assert night.end() == 3, night.all_said()
    assert "no space left on" in night.all_said().lower()
    assert "warehouse" in night.said()


def test_a_full_report_costs_no_record_and_unreadable_labels_are_their_own_models_alone(folder):
    # Root may read all; without these capabilities it may not.
    less = "-dac_override,-dac_read_search"
    command = ("setpriv", f"--bounding-set={less}", f"--inh-caps={less}") if not os.getuid() else ()
    (folder / "lake" / "labels" / "others" / f"day={DAY}" / "part-00000.parquet").chmod(0)
    with small_disk(folder / "report", "100k"):
        night = Watched(folder, *command)
        assert night.end() == 3, night.all_said()
    lost = dict.fromkeys(("good-5", "good-6", "good-7"), "not_evaluable")
    assert night.records() == EVALUATED | lost
    assert str(folder / "report") in night.said()


def test_a_full_disk_of_ray_leaves_a_record_for_every_model(folder):
    place = pathlib.Path(f"/tmp/privaudit-{os.getpid()}")  # noqa: S108  # sockets need a short path
    with small_disk(place, "100k"):
        night = Watched(folder, environment={"RAY_TMPDIR": str(place)})
        code = night.end()
    place.rmdir()
    assert code == 3, night.all_said()
    assert sorted(night.records()) == MODELS, night.all_said()


def test_without_shared_memory_and_a_home_to_write_to_nobody_loses_a_figure(folder):
    home = folder / "home"
    fill = "mount -t tmpfs -o size=1m none /dev/shm && dd if=/dev/zero of=/dev/shm/x 2>/dev/null"
    command = ("unshare", "--mount", "sh", "-c", f'{fill}; exec "$@"', "sh")
    with small_disk(home, "1m", "ro"):
        night = Watched(folder, *command, environment={"HOME": str(home)})
        assert night.end() == 0, night.all_said()
    assert night.records() == EVALUATED


@pytest.fixture
def server(tmp_path):
    """Yield the address of a Prefect server of one's own, once it answers, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    process = subprocess.Popen(
        [_BIN / "prefect", "server", "start", "--port", str(port), "--no-ui"],
        env=os.environ | {
            "PREFECT_HOME": str(tmp_path / "server"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        },
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()  # noqa: S310
        except OSError:
            time.sleep(0.5)
        else:
            break
    yield url, process
    process.terminate()
    process.wait(timeout=60)


def test_a_prefect_server_that_stays_away_leaves_a_record_for_every_model(folder, server):
    url, process = server
    listed = MODELS[:2]  # each event that no server takes is tried for seven seconds
    write_settings(folder, listed)
    asked_once = {"PREFECT_API_URL": url, "PREFECT_CLIENT_MAX_RETRIES": "1"}
    night = Watched(folder, environment=asked_once)
    night.wait_for_ray(longest=0.0, chance=random.Random(0))  # noqa: S311
    process.terminate()
    process.wait(timeout=60)
    code = night.end()
    assert sorted(night.records()) == listed, night.all_said()
    assert code in {0, 3}, night.all_said()

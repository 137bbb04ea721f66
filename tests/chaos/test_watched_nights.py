"""Whatever ends a part of a night: nothing left running, and a second start has every record.

Faults come at moments drawn from the seed 0, to a night of eight models that a command carries.
"""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from flows.run.nightly import overdue_models
from flows.settings import load_settings
from tests.chaos.watched import MODELS, SECONDS, Watched
from tests.hostile.night import make_template
from tests.support.lake import DAY, write_settings

pytestmark = pytest.mark.slow

_MOMENTS = 10.0
"""Seconds after Ray's start in which a fault may come."""


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


@contextmanager
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
}


@pytest.mark.parametrize("fault", ENDS)
def test_a_night_that_dies_is_completed_by_a_second_start(folder, fault):
    night = Watched(folder)
    night.wait_for("raylet/raylet")
    time.sleep(random.Random(0).uniform(0.0, _MOMENTS))  # noqa: S311
    ENDS[fault](night)
    code, before = night.end(), night.records()
    if before != dict.fromkeys(MODELS, "evaluated"):
        # A Ray whose parts are lost may end the command with 1, which is also violated's code:
        # what counts are the records.
        assert code not in {0, 2}, night.all_said()
        assert "violated" not in night.all_said()
        assert _overdue(folder) == sorted(set(MODELS) - set(before))
    again = Watched(folder)
    assert again.end() == 0, again.all_said()
    assert again.records() == dict.fromkeys(MODELS, "evaluated")
    pages = {page.stem for page in (folder / "report" / "models").glob("*.html")}
    assert pages == set(MODELS), again.all_said()


def _overdue(folder: pathlib.Path) -> list[str]:
    """Return the models that `privaudit overdue` names."""
    settings = load_settings(folder / "privaudit.toml")
    deadline = max(settings.deadline_of(model, DAY) for model in MODELS)
    return sorted(overdue_models(settings, DAY, now=deadline + dt.timedelta(seconds=1)))


HELPERS = ("ray::", "workers.contained")


def test_four_lost_helpers_cost_nobody_a_figure(folder):
    chance = random.Random(0)  # noqa: S311
    night = Watched(folder)
    night.wait_for("raylet/raylet")
    for _ in range(4):
        time.sleep(chance.uniform(0.0, _MOMENTS / 4))
        night.kill(chance.choice(HELPERS))
    assert night.end() == 0, night.all_said()
    assert night.records() == dict.fromkeys(MODELS, "evaluated")
    pages = {page.stem for page in (folder / "report" / "models").glob("*.html")}
    assert pages == set(MODELS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_night_goes_on_when_it_is_started_again(folder, number):
    night = Watched(folder)
    night.wait_for("raylet/raylet")
    time.sleep(random.Random(0).uniform(0.0, _MOMENTS / 2))  # noqa: S311
    night.process.send_signal(number)
    asked = time.monotonic()
    code = night.end()
    # At SIGTERM Ray ends its driver in its own way, once it has begun.
    assert code == 130 if number == signal.SIGINT else code not in {0, 1, 2}, night.all_said()
    assert time.monotonic() - asked < 60.0
    if number == signal.SIGINT:
        assert "Run the same command again to go on" in night.said()
    again = Watched(folder)
    assert again.end() == 0, again.all_said()
    assert again.records() == dict.fromkeys(MODELS, "evaluated")


def test_a_full_warehouse_is_said_with_its_path(folder):
    with small_disk(folder / "warehouse", "100k"):
        night = Watched(folder)
        assert night.end() == 3, night.all_said()
    assert "no space left on" in night.all_said().lower()
    assert "warehouse" in night.said()


def test_a_full_report_costs_no_record(folder):
    with small_disk(folder / "report", "100k"):
        night = Watched(folder)
        assert night.end() == 3, night.all_said()
    assert night.records() == dict.fromkeys(MODELS, "evaluated")
    assert str(folder / "report") in night.said()


def test_a_full_disk_of_ray_leaves_a_record_for_every_model(folder):
    place = pathlib.Path(f"/tmp/privaudit-{os.getpid()}")  # noqa: S108  # sockets need a short path
    with small_disk(place, "100k"):
        night = Watched(folder, environment={"RAY_TMPDIR": str(place)})
        code = night.end()
    place.rmdir()
    assert code == 3, night.all_said()
    assert sorted(night.records()) == MODELS, night.all_said()


def test_without_shared_memory_nobody_loses_a_figure(folder):
    fill = "mount -t tmpfs -o size=1m none /dev/shm && dd if=/dev/zero of=/dev/shm/x 2>/dev/null"
    night = Watched(folder, "unshare", "--mount", "sh", "-c", f'{fill}; exec "$@"', "sh")
    assert night.end() == 0, night.all_said()
    assert night.records() == dict.fromkeys(MODELS, "evaluated")


def test_a_home_that_cannot_be_written_to_costs_nothing(folder):
    home = folder / "home"
    with small_disk(home, "1m", "ro"):
        night = Watched(folder, environment={"HOME": str(home)})
        assert night.end() == 0, night.all_said()
    assert night.records() == dict.fromkeys(MODELS, "evaluated")


def test_labels_that_may_not_be_read_are_their_own_models_alone(folder):
    # Root may read all; without these capabilities it may not.
    less = "-dac_override,-dac_read_search"
    command = ("setpriv", f"--bounding-set={less}", f"--inh-caps={less}") if not os.getuid() else ()
    file = folder / "lake" / "labels" / "others" / "day=2026-03-02" / "part-00000.parquet"
    file.chmod(0)
    night = Watched(folder, *command)
    assert night.end() == 3, night.all_said()
    lost = dict.fromkeys(("good-5", "good-6", "good-7"), "not_evaluable")
    assert night.records() == dict.fromkeys(MODELS, "evaluated") | lost


@pytest.fixture
def server(tmp_path):
    """Yield the address of a Prefect server of one's own, once it answers, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    process = subprocess.Popen(
        [str(pathlib.Path(sys.executable).with_name("prefect")), "server", "start",
         "--port", str(port), "--no-ui"],
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
    night = Watched(folder, environment={"PREFECT_API_URL": url})
    night.wait_for("raylet/raylet")
    process.terminate()
    process.wait(timeout=60)
    code = night.end()
    assert sorted(night.records()) == MODELS, night.all_said()
    assert code in {0, 3}, night.all_said()

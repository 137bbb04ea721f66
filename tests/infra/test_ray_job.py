"""A Ray that a person started by hand, with a token: what runs there, and who is refused.

As that person would: `ray start` twice, `ray job submit`, `privaudit run`. The head has no CPUs, so
what is played is played on the other node.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests.support.audits import run_audits
from tests.support.lake import (
    DAY,
    MEMORISE,
    PLAN,
    clone_model,
    declared,
    figures,
    small_lake,
    write_settings,
)
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("aiohttp_cors") is None,
        reason="ray[default], Ray's job server, is not installed: pip install 'privaudit[cluster]'",
    ),
]

BIN = pathlib.Path(sys.executable).parent
HERE = "127.0.0.1"
SECONDS = 600
MODELS = ["good", "other"]


@dataclass(frozen=True)
class ByHand:
    """A cluster, and the environment of who started it."""

    folder: pathlib.Path
    environment: dict[str, str]
    gcs: int
    client: int
    jobs: str

    def call(self, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run a command in an empty folder; an empty change takes a variable away."""
        environment = {name: value for name, value in (self.environment | changes).items() if value}
        return subprocess.run(
            [BIN / command[0], *command[1:]],
            env=environment,
            cwd=self.folder / "elsewhere",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def submit(self, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Submit a command as a job and wait for its end."""
        return self.call("ray", "job", "submit", "--address", self.jobs, "--", *command, **changes)

    def site(self, name: str) -> pathlib.Path:
        """Return the settings of a site of its own on the one lake."""
        site = self.folder / name
        site.mkdir()
        (site / "lake").symlink_to(self.folder / "lake")
        return write_settings(site, MODELS)

    def processes(self) -> Iterator[psutil.Process]:
        """Yield every process that was started in this cluster's environment."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("RAY_TMPDIR") == self.environment["RAY_TMPDIR"]:
                    yield process


@pytest.fixture(scope="module")
def cluster() -> Iterator[ByHand]:
    # Not in pytest's folder: the path of a socket has no more than 107 characters.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    (folder / "elsewhere").mkdir()
    lake = small_lake(folder / "lake", rows=2000, privacy=declared(), parameters=MEMORISE)
    clone_model(lake, "other")
    ours = ("RAY_", "PREFECT_", "PRIVAUDIT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    gcs, client, jobs, agent, other = _free_ports(5)
    by_hand = ByHand(
        folder,
        kept
        | {
            "HOME": str(folder / "home"),
            "PATH": f"{BIN}:{kept['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "RAY_TMPDIR": str(folder),
            "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0",
            # A busy machine starts a node slowly, which is no fault of the audit's.
            "RAY_raylet_start_wait_time_s": "600",
        },
        gcs,
        client,
        f"http://{HERE}:{jobs}",
    )
    try:
        _well(by_hand.call("ray", "get-auth-token", "--generate"))
        small = (f"--node-ip-address={HERE}", "--object-store-memory=100000000")
        _well(
            by_hand.call(
                "ray", "start", "--head", "--num-cpus=0", *small,
                f"--port={gcs}", f"--ray-client-server-port={client}",
                f"--dashboard-port={jobs}", f"--dashboard-agent-listen-port={agent}",
            )
        )  # fmt: skip
        _well(
            by_hand.call(
                "ray", "start", f"--address={HERE}:{gcs}", "--num-cpus=2", *small,
                f"--dashboard-agent-listen-port={other}",
            )
        )  # fmt: skip
        yield by_hand
    finally:
        for process in by_hand.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(cluster: ByHand) -> list[dict[str, Any]]:
    """Return what the two audits come to in this process."""
    config = cluster.site("undisturbed")
    warehouse = Warehouse(str(config.parent / "warehouse"))
    requests = [Request(model, PLAN) for model in MODELS]
    for record in run_audits(
        Lake(str(cluster.folder / "lake")), DAY, requests, executor=InProcess()
    ):
        warehouse.commit(record)
    return committed(config)


def test_a_job_audits_a_night_and_each_unit_tells_once(
    cluster: ByHand, undisturbed: list[dict[str, Any]]
) -> None:
    config = cluster.site("night")
    job = cluster.submit(
        "privaudit", "night", "--day", str(DAY), "--config", str(config), "--ray-address", "auto"
    )
    # Both models memorise and declare 0.5: privaudit exits with 1, and so does the job.
    assert job.returncode == 1, job.stdout + job.stderr
    assert "Job entrypoint command failed with exit code 1" in job.stdout + job.stderr
    assert committed(config) == undisturbed
    identity = next(word for word in job.stdout.split() if "raysubmit_" in word).strip("'")
    logs = _well(cluster.call("ray", "job", "logs", "--address", cluster.jobs, identity))
    told = [json.loads(line) for line in logs.splitlines() if line.startswith("{")]
    units = [line["pass"] for line in told if line["event"] == "work_unit_done"]
    audits = [line["audit_id"] for line in told if line["event"] == "audit_done"]
    assert len(units) == len(set(units)) == 2
    assert sorted(audits) == sorted(record["audit"]["audit_id"] for record in undisturbed)
    with sqlite3.connect(cluster.folder / "home" / ".prefect" / "prefect.db") as prefect:
        flow = [line.split() for (line,) in prefect.execute("select message from log")]
    assert sorted(line[1] for line in flow if line[0] == "event=work_unit_done") == sorted(
        f"pass={unit}" for unit in units
    )
    assert sorted(line[1] for line in flow if line[0] == "event=audit_done") == sorted(
        f"audit_id={audit}" for audit in audits
    )


@pytest.mark.parametrize("address", ["auto", "host:port", "ray://host:port"])
def test_a_driver_outside_of_a_job_commits_the_same_record(
    cluster: ByHand, undisturbed: list[dict[str, Any]], address: str
) -> None:
    config = cluster.site(f"driver-{address.partition(':')[0]}")
    run = cluster.call(*_run(config, _filled(cluster, address)))
    assert run.returncode == 1, run.stdout + run.stderr
    assert "violated" in run.stdout
    assert committed(config) == undisturbed[:1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RAY_AUTH_TOKEN": "wrong"}, "Invalid authentication token"),
        ({"HOME": "."}, "couldn't find an authentication token"),
        ({"HOME": ".", "RAY_AUTH_MODE": ""}, "Missing authentication token"),
    ],
    ids=["wrong", "none", "no-mode"],
)
def test_a_job_without_the_token_is_refused(
    cluster: ByHand, changes: dict[str, str], said: str
) -> None:
    refused = cluster.submit("touch", str(cluster.folder / "ran"), **changes)
    assert refused.returncode == 1
    assert "AuthenticationError: " in refused.stderr
    assert said in refused.stderr
    assert not (cluster.folder / "ran").exists()


@pytest.mark.parametrize(
    ("address", "changes", "said"),
    [
        ("host:port", {"RAY_AUTH_TOKEN": "wrong"}, "does not answer or refuses this process"),
        ("ray://host:port", {"RAY_AUTH_TOKEN": "wrong"}, "does not answer or"),
        ("auto", {"HOME": "."}, "wants a token and there is none here"),
        ("host:port", {"RAY_AUTH_MODE": ""}, "does not answer or"),
    ],
)
def test_a_driver_without_the_token_is_refused_in_one_sentence(
    cluster: ByHand, address: str, changes: dict[str, str], said: str
) -> None:
    config = cluster.folder / "privaudit.toml"
    write_settings(cluster.folder, MODELS)
    refused = cluster.call(*_run(config, _filled(cluster, address)), **changes)
    # Ray itself logs a line before; it begins with a bracket.
    (sentence,) = (line for line in refused.stderr.splitlines() if not line.startswith("["))
    assert refused.returncode == 3
    assert sentence.startswith(f"privaudit: Ray at {_filled(cluster, address)} {said}: ")
    assert not (cluster.folder / "warehouse").exists()


def committed(config: pathlib.Path) -> list[dict[str, Any]]:
    """Return all that a site's records say but when they were made."""
    warehouse = Warehouse(str(config.parent / "warehouse"))
    audits = warehouse.scan("audits").sort("model").collect()
    said = [figures(warehouse.record(audit_id)) for audit_id in audits["audit_id"]]
    for record in said:
        del record["audit"]["record_digest"]  # it covers the moment
    return said


def _run(config: pathlib.Path, address: str) -> list[str]:
    given = ["--model", "good", "--day", str(DAY), "--config", str(config)]
    return ["privaudit", "run", *given, "--ray-address", address]


def _filled(cluster: ByHand, address: str) -> str:
    port = cluster.client if address.startswith("ray://") else cluster.gcs
    return address.replace("host:port", f"{HERE}:{port}")


def _well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HERE, 0))
        return [one.getsockname()[1] for one in sockets]

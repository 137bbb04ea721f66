"""A Ray cluster of several nodes on this machine, a lake, and all that can go wrong there."""

import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
from ray.cluster_utils import Cluster

from tests.chaos.driver import PLAN, WORK_UNIT_BYTES
from tests.support.audits import run_audits
from tests.support.lake import DAY, EVE, declared, label_rows, put_labels, put_model
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import Warehouse

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = 24
ROWS = 4000
SECONDS = 900
STORE_BYTES = 100 << 20
TASK = "ray::scan_work_unit"


@dataclasses.dataclass
class Outcome:
    """How a run ended: the committed rows, and what the driver's units told."""

    records: list[AuditRecord]
    told: list[dict[str, Any]]

    def figures(self) -> list[dict[str, Any]]:
        """Return all that the records say but when they were made."""
        return [_figures(record) for record in self.records]


class Arena:
    """One cluster (a head without CPUs and two workers) and one lake, for many runs."""

    def __init__(self, folder: pathlib.Path, setenv: Callable[[str, str], None]) -> None:
        self.folder = folder
        self.lake = _make_lake(folder / "lake")
        quiet = {
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            # A busy machine starts a node slowly, which is no fault of the audit's.
            "RAY_raylet_start_wait_time_s": "600",
        }
        for name, value in quiet.items():
            setenv(name, value)
        self.expected = _figures(_undisturbed(self.lake))
        quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
                "_system_config": quick,
            },
        )
        self.workers = [self._add_node() for _ in range(2)]
        self.runs = 0

    def close(self) -> None:
        """Stop the cluster."""
        self.cluster.shutdown()

    def start(self, warehouse: str) -> subprocess.Popen[str]:
        """Start a driver."""
        given = {"address": self.cluster.address, "lake": self.lake.uri, "warehouse": warehouse}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.driver", json.dumps(given)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def new_warehouse(self) -> str:
        """Return an empty place for a warehouse."""
        self.runs += 1
        return str(self.folder / f"warehouse-{self.runs}")

    def kill_worker(self) -> bool:
        """Kill a process that plays a unit, wherever it runs; whether there was one."""
        mine = psutil.Process().children(recursive=True)
        playing = [process for process in mine if _command(process).startswith(TASK)]
        for process in playing[:1]:
            process.kill()
        return bool(playing)

    def kill_node(self, choice: random.Random) -> bool:
        """Kill a node with all that runs there, and give the cluster another one."""
        node = self.workers.pop(choice.randrange(len(self.workers)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.workers.append(self._add_node())
        return True

    def _add_node(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)


def disturb_after(units: int, driver: subprocess.Popen[str], fault: Callable[[], Any]) -> list[Any]:
    """Do harm once so many units are done, and return what the units told in the end."""
    told: list[Any] = []
    assert driver.stdout is not None
    done = False
    for line in driver.stdout:
        if line.startswith("{"):
            told.append(json.loads(line))
        if len(told) >= units and not done:
            done = True
            fault()
    assert driver.wait(timeout=SECONDS) == 0, driver.stderr and driver.stderr.read()[-3000:]
    assert told[-1] == {"event": "committed"}
    return told[:-1]


def outcome(warehouse: str, told: list[dict[str, Any]]) -> Outcome:
    """Read what is committed."""
    found = Warehouse(warehouse)
    audits = found.scan("audits").collect()
    assert audits["audit_id"].is_unique().all()
    return Outcome([found.record(audit_id) for audit_id in audits["audit_id"]], told)


def fill_store(address: str) -> None:
    """Put more into the head's object store than it holds, so that it spills to disk."""
    code = (
        "import ray, numpy, time; ray.init(address=%r, log_to_driver=False);"
        "kept = [ray.put(numpy.ones(20 << 20, dtype=numpy.uint8)) for _ in range(12)];"
        "time.sleep(8)"
    )
    subprocess.run([sys.executable, "-c", code % address], check=True, timeout=SECONDS,
                   capture_output=True)  # fmt: skip


def wait_until(true: Callable[[], bool]) -> bool:
    """Wait up to 20 seconds for something; whether it came."""
    end = time.monotonic() + 20.0
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _figures(record: AuditRecord) -> dict[str, Any]:
    dumped = record.model_dump()
    for moment in ("recorded_at", "record_digest", "revision"):
        del dumped["audit"][moment]
    for part, rows in dumped.items():
        for row in [rows] if part == "audit" else rows:
            del row["audit_id"], row["labels_digest"]  # each warehouse has its own
        if part != "audit":
            dumped[part] = sorted(rows, key=lambda row: json.dumps(row, default=str))
    return dumped


def _make_lake(folder: pathlib.Path) -> Lake:
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(UNITS * ROWS, seed=seed), row_group_size=ROWS)
        put_model(lake, day, privacy=declared(), parameters={"iterations": 60, "depth": 6})
    return lake


def _undisturbed(lake: Lake) -> AuditRecord:
    (record,) = run_audits(
        lake, DAY, [Request("good", PLAN)], executor=InProcess(), work_unit_bytes=WORK_UNIT_BYTES
    )
    return record

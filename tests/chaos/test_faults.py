"""An audit on a cluster that fails ends with the one right record, to the bit.

Storage that fails, a driver that dies, a commit that is killed or raced, and damaged files are the
business of other tests: `test_failing_store.py`, `test_watched_nights.py`, `test_commit.py`,
`test_bad_inputs.py`.
"""

import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
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
UNITS, ROWS = 24, 4_000
SECONDS = 900
STORE_BYTES = 100 << 20
FILL = (
    "import ray, numpy, time; ray.init(address=%r, log_to_driver=False);"
    "kept = [ray.put(numpy.ones(20 << 20, dtype=numpy.uint8)) for _ in range(12)];"
    "time.sleep(8)"
)
"""Puts more into the head's object store than it holds, so that it spills to disk."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = Lake(str(tmp_path_factory.mktemp("chaos") / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(UNITS * ROWS, seed=seed), row_group_size=ROWS)
        put_model(lake, day, privacy=declared(), parameters={"iterations": 60, "depth": 6})
    return lake


@pytest.fixture
def cluster(monkeypatch):
    """Yield a cluster on this machine: a head without processors."""
    for name, value in {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A busy machine starts a node slowly, which is no fault of the audit's.
        "RAY_raylet_start_wait_time_s": "600",
    }.items():
        monkeypatch.setenv(name, value)
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    made = Cluster(initialize_head=True, head_node_args=head | {"_system_config": quick})
    yield made
    made.shutdown()


def add_node(cluster: Cluster) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)


def kill_worker() -> bool:
    """Kill a process that plays a unit, wherever it runs; whether one came within 20 seconds."""
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        for process in psutil.Process().children(recursive=True):
            try:
                if " ".join(process.cmdline()).startswith("ray::scan_work_unit"):
                    process.kill()
                    return True
            except psutil.Error:  # it has ended
                continue
        time.sleep(0.02)
    return False


def told(driver: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what units tell, as they do."""
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def figures(record: AuditRecord) -> dict[str, Any]:
    """Return all that a record says but when it was made."""
    dumped = record.model_dump()
    for moment in ("recorded_at", "record_digest", "revision"):
        del dumped["audit"][moment]
    for part, rows in dumped.items():
        for row in [rows] if part == "audit" else rows:
            del row["audit_id"], row["labels_digest"]  # each warehouse has its own
        if part != "audit":
            dumped[part] = sorted(rows, key=lambda row: json.dumps(row, default=str))
    return dumped


@pytest.mark.slow
def test_a_full_store_a_killed_worker_and_a_lost_node_change_no_bit(lake, cluster, tmp_path):
    """At moments drawn from the seed 0."""
    chance, units = random.Random(0), []  # noqa: S311
    nodes = [add_node(cluster) for _ in range(2)]
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    given = {"address": cluster.address, "lake": lake.uri, "warehouse": warehouse.uri}
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.driver", json.dumps(given)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    filling = subprocess.Popen(
        [sys.executable, "-c", FILL % cluster.address],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    worker_at, node_at = chance.randrange(UNITS // 2 - 1), chance.randrange(UNITS // 2, UNITS - 2)
    for unit in told(driver):
        units.append(unit)
        if len(units) == worker_at + 1:
            assert kill_worker()
        if len(units) == node_at:
            cluster.remove_node(nodes.pop(chance.randrange(2)), allow_graceful=False)
            add_node(cluster)
    assert driver.wait(timeout=SECONDS) == 0, driver.stderr and driver.stderr.read()[-3000:]
    assert filling.wait(timeout=SECONDS) == 0
    assert units.pop() == {"event": "committed"}
    assert len(units) == len({unit["shards"] for unit in units}) == UNITS
    (audit_id,) = warehouse.scan("audits").collect()["audit_id"]
    record = warehouse.record(audit_id)
    (undisturbed,) = run_audits(
        lake, DAY, [Request("good", PLAN)], executor=InProcess(), work_unit_bytes=WORK_UNIT_BYTES
    )
    assert record.audit.status == "evaluated"
    assert figures(record) == figures(undisturbed)

"""All that a company's service needs, on this machine: nodes of Ray, an object store, Prefect.

driver of a flow run -- worker of Prefect -- server -- PostgreSQL
        |
head of Ray -- nodes -- proxy (30 ms a request, throttles) -- object store: lake, warehouse
"""

import contextlib
import datetime as dt
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flows.run.slots import LIMIT
from tests.chaos.nodes import TASK_MEMORY, Nodes, cluster, environment
from tests.support.audits import run_audits
from tests.support.faulty_store import Choice, Fault, faulty_store, sometimes
from tests.support.lake import (
    PLAN,
    declared,
    edit_manifest,
    label_rows,
    model_path,
    put_labels,
    put_model,
)
from tests.support.object_store import upload
from tests.support.postgresql import Server, children, postgresql
from tests.support.service import BIN, Service, running, until
from tests.support.warehouse import cut_off
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.layout import _remote as connected
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

DAYS = [dt.date(2026, 3, 1) + dt.timedelta(days=step) for step in range(6)]
"""Days with a checkpoint and labels; the first one's is the proxy of the second."""
NODES, FEW = 4, 6
"""Nodes at first; models that have inputs on every day, the others on the first two alone."""
_DELAY, _THROTTLED = 0.03, 0.01
_DATASETS, _ROWS = 10, 400
_NOT_COMPARED = ("recorded_at", "record_digest", "revision", "asked_by", "exploratory")
"""Columns that say when and for whom an audit was committed."""


class Stage:
    """The parts, and nights on them; `folder` holds the settings and the report of each."""

    def __init__(
        self,
        folder: pathlib.Path,
        service: Service,
        nodes: Nodes,
        database: Server,
        bucket: str,
    ) -> None:
        self.folder, self.service, self.nodes = folder, service, nodes
        self.database, self.bucket = database, bucket
        self._runs = 0

    def settings(self, models: int) -> tuple[pathlib.Path, Warehouse]:
        """Return settings of the first models of the lake, and their own empty warehouse."""
        self._runs += 1
        site = self.folder / f"site-{self._runs}"
        site.mkdir()
        path, warehouse = site / "privaudit.toml", f"{self.bucket}/warehouse-{self._runs}"
        listed = "".join(f'[[models]]\nname = "{name(number)}"\n' for number in range(models))
        path.write_text(
            f'lake = "{self.bucket}/lake"\nwarehouse = "{warehouse}"\nreport = "report"\n{listed}'
            f"[plan]\nrepetitions = {PLAN.repetitions}\n"
            f'[ray]\naddress = "{self.nodes.address}"\ntask_memory = {TASK_MEMORY}\n',
            encoding="utf-8",
        )
        return path, Warehouse(warehouse)

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Start a command as a person does."""
        log = (self.folder / f"command-{time.monotonic()}.log").open("w")
        return subprocess.Popen(
            [BIN / "privaudit", *words], cwd=self.folder, env=self.service.environment,
            stdout=log, stderr=log, text=True,
        )  # fmt: skip

    def wait_for_run(self, identity: str) -> None:
        """Wait until a worker carries a flow run."""
        until(lambda: self.service.run(identity)["state"]["type"] == "RUNNING", 300)

    def kill_busy_worker(self) -> None:
        """Kill the worker of Prefect that carries a flow run, and the run with it."""
        (busy,) = (
            place for place, worker in enumerate(self.service.workers) if children(worker.pid)
        )
        self.service.kill_worker(busy)

    def restore(self) -> None:
        """Have as many nodes and workers as at first."""
        while len(self.nodes.nodes) < NODES:
            self.nodes.join()
        while len(self.nodes.nodes) > NODES:
            self.nodes.leave(0)
        while len(self.service.workers) < 2:
            self.service.start_worker()

    def check_nothing_runs(self) -> None:
        """Check that no flow run, task of Ray or slot of Prefect is left."""
        workers = self.service.workers
        until(lambda: not any(children(worker.pid) for worker in workers), 60)
        until(self.nodes.is_idle, 120)
        limits = self.service.post("/v2/concurrency_limits/filter")
        (slots,) = (limit["active_slots"] for limit in limits if limit["name"] == LIMIT)
        assert slots == 0


def name(number: int) -> str:
    """Return what a model is called."""
    return f"model-{number:03d}"


@contextlib.contextmanager
def stage(folder: pathlib.Path, models: int) -> Iterator[Stage]:
    """Run everything, with a lake of so many models."""
    with contextlib.ExitStack() as opened:
        patched = opened.enter_context(pytest.MonkeyPatch.context())
        for key, value in environment().items():
            patched.setenv(key, value)
        store, bucket = opened.enter_context(faulty_store())
        connected.cache_clear()
        opened.callback(connected.cache_clear)
        _fill(f"{bucket}/lake", folder / "lake", models)
        store.choice = _slow()
        nodes = opened.enter_context(cluster(NODES))
        database = opened.enter_context(postgresql("prefect"))
        (folder / "privaudit.toml").write_text("")  # each run names its own settings
        service = opened.enter_context(
            running(folder, folder / "prefect", database.uri(driver="asyncpg"), workers=2)
        )
        yield Stage(folder, service, nodes, database, bucket)


def _slow() -> Choice:
    """Let every request wait, and a share of them be throttled."""
    throttled = sometimes(Fault.THROTTLED, _THROTTLED, seed=35)

    def choose(method: str, path: str) -> Fault | None:
        time.sleep(_DELAY)
        return throttled(method, path)

    return choose


def _fill(uri: str, folder: pathlib.Path, models: int) -> None:
    """Write models of one kind on several labels; each has a manifest of its own."""
    local = Lake(str(folder))
    for seed, day in enumerate(DAYS):
        wanted = models if day <= DAYS[1] else FEW
        for dataset in range(min(_DATASETS, wanted)):
            rows = label_rows(_ROWS, seed=100 * seed + dataset)
            put_labels(local, day, rows, dataset=f"labels-{dataset}")
            put_model(
                local, day, model=name(dataset), dataset=f"labels-{dataset}", privacy=declared()
            )
            for number in range(dataset + _DATASETS, wanted, _DATASETS):
                first, copy = (model_path(local, name(one), day) for one in (dataset, number))
                shutil.copytree(first, copy)
                edit_manifest(local, name(number), day, model=name(number))
    upload(folder, uri)


def check_records(warehouse: Warehouse, expected: set[tuple[str, dt.date]]) -> None:
    """Check that each model and day has one record, whole, and that nothing else is there."""
    audits = warehouse.collect(warehouse.scan("audits"))
    found = list(audits.select("model", "day").iter_rows())
    assert len(found) == len(set(found)) == len(expected)
    assert set(found) == expected
    assert set(audits["status"]) == {"evaluated"}
    assert audits["audit_id"].is_unique().all()
    assert cut_off(warehouse) == set()
    for table, shape in TABLES.items():
        if warehouse.delta(table) is not None:
            rows = warehouse.collect(warehouse.scan(table).select(shape.keys))
            assert rows.is_unique().all(), table


def check_figures(stage: Stage, warehouse: Warehouse, names: list[str], day: dt.date) -> None:
    """Check that models' records say, to the bit, what an audit in this process comes to."""
    key = warehouse.digest_key()
    requests = [Request(one, PLAN, digest_key=key) for one in names]
    lake = Lake(f"{stage.bucket}/lake")
    for record in run_audits(lake, day, requests, executor=InProcess()):
        stored = warehouse.record(record.audit.audit_id)
        assert _said(stored) == _said(record)


def _said(record: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = json.loads(record.model_dump_json())
    for column in _NOT_COMPARED:
        del dumped["audit"][column]
    for part, rows in dumped.items():
        if part != "audit":
            dumped[part] = sorted(rows, key=json.dumps)
    return dumped

"""Four nodes against one: how much of three more machines the work gains.

    python -m tests.benchmarks.nodes [--units 48] [--seconds 1.0] [--delay 1.0]

The machine has few cores, so a unit of work waits instead of computing. `sleep` is a task that
sleeps for `--seconds`. `units` and `audit` are a real audit, its work units alone and all of it:
its lake lies in an object store, and each of `--units` row groups is a unit, which waits for
storage `--delay` seconds in all. The nodes are those of the tests of clusters
(`tests.chaos.nodes`): a session with a memory limit, an address and a folder of its own, and one
CPU as Ray counts it.

Efficiency is the seconds that one node takes over four times those that four nodes take, by the
clock, of the second of two runs. The first one starts the workers, waits for no storage, and counts
the units' requests. In the second every request, also of what comes before and after the units,
waits as long as one of theirs has to.
"""

import argparse
import os
import pathlib
import tempfile
import threading
import time
from typing import Any
from unittest.mock import patch

from tests.chaos.nodes import Nodes, cluster, environment
from tests.support.audits import run_audits
from tests.support.faulty_store import faulty_store
from tests.support.lake import DAY, EVE, declared, label_rows, put_labels, put_model
from tests.support.object_store import upload
from workers.audit.request import Request
from workers.executors import OnRay, on_ray
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.totals import total

_NODES = 4
_ROWS = 100


class Storage:
    """The choice of a store that fails no request, counts all, and lets each wait."""

    def __init__(self) -> None:
        self.requests, self.wait = 0, 0.0
        self._lock = threading.Lock()

    def __call__(self, _method: str, _path: str) -> None:
        """Let a request wait."""
        with self._lock:
            self.requests += 1
        time.sleep(self.wait)


def _nap(seconds: float, _unit: int) -> None:
    time.sleep(seconds)


def _measure(
    nodes: Nodes, lake: Lake, storage: Storage, given: argparse.Namespace
) -> dict[str, float]:
    """Return the seconds of each kind of work on the nodes that there are, of a second run."""
    storage.wait = 0.0
    with on_ray(nodes.address) as executor:
        for _ in range(2):
            begun = time.monotonic()
            list(executor.map(_nap, given.seconds, range(given.units)))
            slept = time.monotonic() - begun
            seconds, requests = _audit(lake, storage, executor)
            storage.wait = given.delay * given.units / requests
    return {"sleep": slept} | seconds


def _audit(lake: Lake, storage: Storage, executor: OnRay) -> tuple[dict[str, float], int]:
    """Audit; return the seconds of the work units and of all, and the units' requests."""
    seconds, requests = {}, 0

    def timed(*arguments: Any, **options: Any) -> Any:
        nonlocal requests
        begun, before = time.monotonic(), storage.requests
        found = total(*arguments, **options)
        seconds["units"], requests = time.monotonic() - begun, storage.requests - before
        return found

    requests, begun = [Request("good", Plan(repetitions=4))], time.monotonic()
    with patch("workers.scan.label_pass.total", timed):
        list(run_audits(lake, DAY, requests, executor=executor, work_unit_bytes=1))
    return seconds | {"audit": time.monotonic() - begun}, requests


def main() -> None:
    """Do the same work on one node and on four, and print how long each took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--delay", type=float, default=1.0)
    given = parser.parse_args()
    os.environ.update(environment())  # before Ray is imported
    with faulty_store() as (store, bucket), tempfile.TemporaryDirectory() as folder:
        lake = _fill(f"{bucket}/lake", pathlib.Path(folder), given.units)
        store.choice = storage = Storage()
        with cluster(1) as nodes:
            one = _measure(nodes, lake, storage, given)
            for _ in range(_NODES - 1):
                nodes.join()
            four = _measure(nodes, lake, storage, given)
    for kind, seconds in one.items():
        efficiency = seconds / (_NODES * four[kind])
        print(f"{kind}: one node {seconds:.1f} s, {_NODES} nodes {four[kind]:.1f} s, "  # noqa: T201
              f"efficiency {efficiency:.2f}")  # fmt: skip


def _fill(uri: str, folder: pathlib.Path, units: int) -> Lake:
    local = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(local, day, label_rows(units * _ROWS, seed=seed), row_group_size=_ROWS)
        put_model(local, day, privacy=declared())
    upload(folder, uri)
    return Lake(uri)


if __name__ == "__main__":
    main()

"""A Ray cluster of several machines, played on this one: `ray start` for each of them.

Each node is a session with an address, a temporary folder and a memory limit of its own: a
control group where this process may make one (Linux kills what exceeds it), and in any case Ray's
own resource `memory`, by which tasks are placed. Whoever asks a node needs the token.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tests.support.postgresql import children, free_port
from tests.support.service import until

MEMORY = 2 << 30
"""Bytes of one node: 0.4 GB for Ray itself, 0.1 for its store, up to 1.2 for a worker."""
TASK_MEMORY = 1200 << 20
_STORE = 100_000_000
_GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
_RAY = pathlib.Path(sys.executable).with_name("ray")
_START_SECONDS = 180.0


class Node:
    """One machine of the cluster, whose processes are all below `process`."""

    def __init__(self, number: int, folder: pathlib.Path, *words: str) -> None:
        self.address = f"127.0.0.{number}"
        self.folder = folder / str(number)
        self.folder.mkdir()
        self._group = _memory_group(f"privaudit-{os.getpid()}-{number}")
        agents = ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent")
        command = [
            _RAY, "start", *words, f"--node-ip-address={self.address}", f"--temp-dir={self.folder}",
            f"--object-store-memory={_STORE}", f"--memory={MEMORY - _STORE}", "--block",
            # A raylet that is not told its agents' ports waits 15 seconds for them: too few here.
            *(f"--{name}-port={free_port()}" for name in agents),
            f"--metrics-export-port={free_port()}",
        ]  # fmt: skip
        with (self.folder / "ray.log").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=self._enter_group,  # noqa: PLW1509
            )  # fmt: skip

    def kill(self) -> None:
        """End it with all that runs there, as a lost machine would."""
        # A killed parent would leave its children to another one.
        for process in [*children(self.process.pid), self.process.pid, *self._members()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, 9)
        self.process.wait()
        end = time.monotonic() + 30.0
        while self._group is not None and time.monotonic() < end:
            with contextlib.suppress(OSError):  # its processes are not all gone yet
                self._group.rmdir()
                self._group = None
            time.sleep(0.1)

    def said(self) -> str:
        """Return what `ray start` printed."""
        return (self.folder / "ray.log").read_text(errors="replace")

    def _members(self) -> list[int]:
        if self._group is None:
            return []
        return [int(process) for process in (self._group / "cgroup.procs").read_text().split()]

    def _enter_group(self) -> None:
        if self._group is not None:
            (self._group / "cgroup.procs").write_text(str(os.getpid()))


class Nodes:
    """A head without CPUs, and nodes of one CPU each that join and leave."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self._numbers = folder, itertools.count(2)
        port = free_port()
        self.head = Node(
            1, folder, "--head", "--num-cpus=0", f"--port={port}", "--include-dashboard=false"
        )
        self.address = f"{self.head.address}:{port}"
        self.nodes: list[Node] = []

    def join(self, *, wait: bool = True) -> Node:
        """Let a node join; with `wait`, return when the head counts it."""
        node = Node(next(self._numbers), self._folder, f"--address={self.address}", "--num-cpus=1")
        self.nodes.append(node)
        if wait:
            self.await_node(node)
        return node

    def await_node(self, node: Node) -> None:
        """Wait until the head counts a node."""

        def counted() -> bool:
            assert node.process.poll() is None, node.said()[-2000:]
            return node.address in self.alive()

        until(counted, _START_SECONDS)

    def leave(self, place: int) -> Node:
        """Let a node be lost, with all that runs there."""
        node = self.nodes.pop(place)
        node.kill()
        return node

    def alive(self) -> set[str]:
        """Return the addresses that the head counts, its own included; none before it answers."""
        return set(self._ask("[n['NodeManagerAddress'] for n in ray.nodes() if n['Alive']]") or ())

    def is_idle(self) -> bool:
        """Return whether no task holds a CPU."""
        free, all_there = "ray.available_resources()", "ray.cluster_resources()"
        return bool(self._ask(f"{free}.get('CPU') == {all_there}['CPU']"))

    def _ask(self, expression: str) -> Any:
        """Return what the head says to a process of its own: Ray reads a token when imported."""
        code = (
            f"import json, ray; ray.init({self.address!r}, log_to_driver=False);"
            f"print(json.dumps({expression}))"
        )
        asked = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
        )
        return json.loads(asked.stdout.splitlines()[-1]) if asked.returncode == 0 else None

    def stop(self) -> None:
        """End them all, the head last."""
        for node in (*self.nodes, self.head):
            node.kill()


def environment() -> dict[str, str]:
    """Return variables for every process that starts a node or asks one."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": os.urandom(32).hex(),
        "RAY_USAGE_STATS_ENABLED": "0",
        # A busy machine starts a node slowly, which is no fault of the audit's.
        "RAY_raylet_start_wait_time_s": "600",
        # As long as any machine may need to be found lost.
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_failure_threshold": "5",
    }


@contextlib.contextmanager
def cluster(count: int) -> Iterator[Nodes]:
    """Run a head and so many nodes; `environment` is set already."""
    # Not in pytest's folder: the path of a socket has no more than 107 characters.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nodes-", dir="/tmp"))
    nodes = Nodes(folder)
    try:
        until(nodes.alive, _START_SECONDS)
        for _ in range(count):
            nodes.join()
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _memory_group(name: str) -> pathlib.Path | None:
    """Return a control group with a node's memory; None where this process may make none."""
    group = _GROUPS / name
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
    except OSError:
        return None
    return group

"""Threads and memory of one process that audits, commits and compacts for days on end.

    python -m tests.benchmarks.growth [AUDITS] [COMPACT_EVERY]

400 audits, never compacted, by default. delta-rs reads the files of a table at once, a thread each,
so threads follow the number of files; those that are idle for ten seconds end. What grows with the
audits though the tables are compacted would be a leak.
"""

import pathlib
import sys
import tempfile
import time

from tests.support.audits import run_audits
from tests.support.lake import DAY, declared, small_lake
from workers.audit.request import Request
from workers.executors import InProcess
from workers.plan import Plan
from workers.warehouse.maintenance import compact
from workers.warehouse.store import Warehouse


def state() -> tuple[int, int]:
    """Return this process's threads, and its memory in MB."""
    lines = pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    said = dict(line.split(":", 1) for line in lines)
    return int(said["Threads"]), int(said["VmRSS"].split()[0]) // 1024


def main(audits: int, compact_every: int) -> None:
    """Audit, and print ten times what the process has become."""
    folder = pathlib.Path(tempfile.mkdtemp())
    lake = small_lake(folder / "lake", privacy=declared())
    warehouse = Warehouse(str(folder / "warehouse"))
    for number in range(audits):
        plan = Plan(repetitions=4, seed=number)
        for record in run_audits(lake, DAY, [Request("good", plan)], executor=InProcess()):
            warehouse.commit(record)
        if compact_every and (number + 1) % compact_every == 0:
            compact(warehouse)
        if (number + 1) % max(1, audits // 10) == 0:
            table = warehouse.delta("audits")
            files = 0 if table is None else len(table.file_uris())
            threads, memory = state()
            print(f"{number + 1} audits, {files} files: {threads} threads, {memory} MB", flush=True)  # noqa: T201
    time.sleep(12.0)
    print(f"12 s later: {state()[0]} threads")  # noqa: T201


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]]
    main(*(asked + [400, 0][len(asked) :]))

"""A driver in a process of its own: audits once and commits, whatever dies around it.

    python -m tests.chaos.driver '{"address": ..., "lake": ..., "warehouse": ...}'

Says on standard output, in one line of JSON each, what every unit told, and "committed" at the end.
"""

import json
import logging
import sys

from tests.support.audits import run_audits
from tests.support.lake import DAY
from workers.audit.request import Request
from workers.executors import on_ray
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.warehouse.store import Warehouse

PLAN = Plan(repetitions=200, slices=("city",), minimum_slice_records=500)
WORK_UNIT_BYTES = 1  # every row group is a unit


class Telling(logging.Handler):
    """Prints what a unit told."""

    def emit(self, record: logging.LogRecord) -> None:
        print(json.dumps(record.privaudit), flush=True)  # type: ignore[attr-defined]  # noqa: T201


def main() -> None:
    """Read what to do, do it."""
    given = json.loads(sys.argv[1])
    log = logging.getLogger("workers.scan.label_pass")
    log.setLevel(logging.INFO)
    log.addHandler(Telling())
    warehouse = Warehouse(given["warehouse"])
    with on_ray(given["address"]) as executor:
        for record in run_audits(
            Lake(given["lake"]),
            DAY,
            [Request("good", PLAN)],
            executor=executor,
            work_unit_bytes=WORK_UNIT_BYTES,
        ):
            warehouse.commit([record])
    print(json.dumps({"event": "committed"}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""Write a small warehouse as this version writes it, with what is in it as JSON beside it.

Run it when a column or a table was added. Until a release has it, the newest folder is written
again; after that, a folder with the next number is, and no older one is ever changed.

    python -m tests.support.warehouse_fixture tests/fixtures/warehouse/1
"""

import datetime as dt
import json
import pathlib
import shutil
import sys
import tempfile

import polars as pl

from tests.support.lake import DAY, EVE, declared, small_lake
from workers.audit.record import failed_record
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import Plan
from workers.release.attack import audit_release
from workers.release.release_plan import ReleasePlan
from workers.release.table import as_table
from workers.warehouse.commit import insert_rows, shared
from workers.warehouse.later_rows import AcknowledgementRow
from workers.warehouse.schema import Status
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

PLAN = Plan(repetitions=4, slices=("city",), minimum_slice_records=50, epsilon_public=0.1)
MECHANISM = {"name": "randomized_response", "parameters": {"epsilon": 0.5, "classes": 2}}


def write(folder: pathlib.Path) -> None:
    """Write a withdrawn failure, a confirmed audit, an error, and an acknowledgement."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        privacy = declared(mechanism=MECHANISM)
        lake = small_lake(pathlib.Path(place), privacy=privacy, days=(EVE, DAY))
        good = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess())
    early = failed_record(
        "good",
        DAY,
        plan=PLAN,
        status=Status.NOT_EVALUABLE,
        reason_code="missing_labels",
        reason="No labels yet.",
    )
    other = failed_record(
        "absent",
        DAY,
        plan=PLAN,
        status=Status.ERROR,
        reason_code="OSError",
        reason="The disk was full.",
    )
    warehouse = Warehouse(str(folder))
    for record in (early, good, other, good):
        warehouse.commit(record)
    warehouse.withdraw(early.audit.audit_id, "The labels were late.")
    known = AcknowledgementRow(
        **shared(good.audit),
        acknowledged_at=dt.datetime.now(dt.UTC),
        acknowledged_by="user anna",
        why="Known.",
        until=DAY,
        epsilon_acknowledged=0.9,
    )
    insert_rows(warehouse, "audit_acknowledgements", (known,))
    people = pl.DataFrame({"age": [41, 41, 52, 67], "town": ["A", "B", "B", "B"]})
    attack = ReleasePlan(definition="idp", epsilon=0.01)
    warehouse.commit_release(
        audit_release(as_table(people), attack, name="people.csv", executor=InProcess())
    )
    rows = {table: warehouse.scan(table).collect().to_dicts() for table in TABLES}
    empty = [table for table, found in rows.items() if not found]
    if empty:
        raise ValueError(f"no rows in {empty}: a fixture fills every table")
    text = json.dumps(rows, default=str, sort_keys=True)
    (folder / "expected.json").write_text(f"{text}\n", encoding="utf-8")
    # A table's first commit names the folder in which it was made: that of whoever runs this.
    here = folder.resolve().parent.as_uri()
    for log in folder.glob("*/_delta_log/*.json"):
        content = log.read_text(encoding="utf-8")
        log.write_text(content.replace(here, "file:///fixtures"), encoding="utf-8")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))

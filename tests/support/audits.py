"""Audits in this process: of one model, or of several as one list; copies of a record."""

import datetime as dt
import hashlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from tests.support.lake import DAY, PLAN
from workers.audit.run import run_audit, run_batches
from workers.executors import InProcess
from workers.labels.shards import WORK_UNIT_BYTES
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS


def recorded(lake: Lake, plan: Plan = PLAN, *, model: str = "good", **changes: Any) -> AuditRecord:
    """Return the record of a day's audit of one model; `changes` of the plan."""
    return run_audit(lake, model, DAY, plan=plan.model_copy(update=changes), executor=InProcess())


def audited(lake: Lake, plan: Plan = PLAN, *, model: str = "good", **changes: Any) -> AuditRow:
    """Return the row in `audits` of such a record."""
    return recorded(lake, plan, model=model, **changes).audit


def run_audits(
    *where: Any, work_unit_bytes: int = WORK_UNIT_BYTES, **more: Any
) -> Iterator[AuditRecord]:
    """Yield the records of `run_batches` one by one; labels are divided as the size says."""
    with patch("workers.labels.shards.WORK_UNIT_BYTES", work_unit_bytes):
        for batch in run_batches(*where, **more):
            yield from batch


def copy_of(record: AuditRecord, model: str, day: dt.date) -> AuditRecord:
    """Return a record as if it were of another model and day."""
    audit_id = hashlib.sha256(f"{model} {day}".encode()).hexdigest()[:32]

    def moved(row: TableRow) -> TableRow:
        known = {"audit_id": audit_id, "model": model, "day": day}
        fields = type(row).model_fields
        return row.model_copy(update={name: known[name] for name in known if name in fields})

    parts = {part: tuple(map(moved, getattr(record, part))) for part in PARTS.values()}
    return record.model_copy(update={"audit": moved(record.audit)} | parts)

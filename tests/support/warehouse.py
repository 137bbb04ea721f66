"""Rows of a warehouse, without an audit behind them."""

import datetime as dt
import hashlib
import os
import pathlib
import pwd
import re
from collections.abc import Callable, Iterable
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa

from privcore.lower_bounds.question import Secret
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.lower_bounds.windows import WINDOW_EPSILONS
from tests.support.lake import DAY, PLAN
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import (
    AuditRecord,
    AuditRow,
    BoundRow,
    NoteKind,
    NoteRow,
    PromiseRow,
    Status,
    WealthRow,
)
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES, as_arrow, as_stored

INPUTS = {
    "exploratory": False,
    "target_sha256": "a" * 64,
    "target_manifest_sha256": "b" * 64,
    "labels_digest": "c" * 64,
    "proxy_sha256": "d" * 64,
}
"""What a record of an audit of checkpoints says of its inputs."""
_CODES = {
    Verdict.VIOLATED: ReasonCode.THIS_NIGHT,
    Verdict.INCONCLUSIVE: ReasonCode.FEW_HELD_OUT,
    Verdict.UNDECLARED: ReasonCode.NOTHING_DECLARED,
}
"""Reasons of verdicts, where a test names none."""
START = dt.datetime(2026, 4, 1, tzinfo=dt.UTC)
USER = f"user {pwd.getpwuid(os.getuid()).pw_name}"
"""Who asks for an audit that a test runs."""


def _identity(*parts: object) -> dict[str, Any]:
    return {
        "audit_id": hashlib.sha256(repr(parts).encode()).hexdigest()[:32],
        "method_version": "1",
        "code_version": "0.1.0",
        "target_sha256": None,
        "proxy_sha256": None,
        "labels_digest": None,
    }


def failed(model: str, day: dt.date, *, hour: int = 0, reason: str = "None.") -> AuditRecord:
    """Return a record without figures, made at that hour after `START`."""
    row = AuditRow(
        **_identity(model, day, hour, reason),
        model=model,
        day=day,
        recorded_at=START + dt.timedelta(hours=hour),
        status=Status.NOT_EVALUABLE,
        verdict="failed",
        reason_code="labels_missing",
        detail="missing_labels",
        reason=reason,
        secret=str(Secret.LABEL),
        plan=PLAN.model_dump_json(),
    )
    return AuditRecord(audit=row)


def evaluated(model: str, day: dt.date, *, hour: int = 0, **changes: Any) -> AuditRecord:
    """Return a record with a figure, a bound, wealth and two promises, made at that hour."""
    identity = _identity(model, day, hour, sorted(changes.items()))
    row = {
        "model": model,
        "day": day,
        "recorded_at": START + dt.timedelta(hours=hour),
        "status": Status.EVALUATED,
        "verdict": "not_refuted",
        "reason": "Fine.",
        "secret": "label",
        "records": 1000,
        "significance": 0.05,
        "epsilon_lower": 0.25,
        "epsilon_declared": 0.5,
        "epsilon_ceiling": 3.0,
        "sees_from": 0.9,
        "claim_pvalue": 0.25,
        "plan": PLAN.model_dump_json(),
    } | changes
    row.setdefault("reason_code", _CODES.get(row["verdict"]))
    bound = BoundRow(
        **identity,
        arm="audit",
        family="pure",
        fraction=0.1,
        guesses=100,
        correct=60.0,
        epsilon_lower=0.25,
    )
    wealth = WealthRow(
        **identity,
        model=model,
        day=day,
        classes=2,
        family="pure_dp",
        delta=0.0,
        neighbors="replace",
        epsilon_declared=0.5,
        labels_recur=False,
        window_log_wealth=tuple(np.tile(1.0 - WINDOW_EPSILONS, 4).tolist()),
        window_price=0.0,
        ceiling_log_wealth=tuple((4.0 * (1.0 - WINDOW_EPSILONS)).tolist()),
        standing_price=0.0,
    )
    promise = PromiseRow(
        **identity, guarantee="declared", quantity="success_bound", value=0.5, source="A theorem."
    )
    other = promise.model_copy(update={"quantity": "leaked_bits", "value": 0.0, "achieved": 0.0})
    audit = AuditRow(**identity | row)
    return AuditRecord(audit=audit, bounds=(bound,), wealth=(wealth,), promises=(promise, other))


def put_rows(
    warehouse: Warehouse,
    records: Iterable[AuditRecord],
    *,
    confirmed: Iterable[tuple[str, int]] = (),
) -> None:
    """Write records in one commit; `confirmed` are ids with hours after `START`."""
    _put(warehouse, "audits", as_stored([seal(record) for record in records]))
    rows = [
        NoteRow(
            **_identity() | {"audit_id": audit_id},
            kind=NoteKind.CONFIRMED,
            noted_at=START + dt.timedelta(hours=hour),
        )
        for audit_id, hour in confirmed
    ]
    _put(warehouse, "audit_notes", as_arrow("audit_notes", rows))


def _put(warehouse: Warehouse, table: str, rows: pa.Table) -> None:
    if rows.num_rows:
        deltalake.write_deltalake(warehouse.path(table), rows, mode="append")


def tamper(warehouse: Warehouse, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored rows of `audits`, or of one of its parts, behind everybody's back."""
    stored = warehouse.delta("audits")
    assert stored is not None
    whole, part = stored.to_pyarrow_table(), TABLES[table].part
    audits = whole.to_pylist()
    for row in audits if part is None else [one for audit in audits for one in audit[part]]:
        change(row)
    changed = pa.Table.from_pylist(audits, whole.schema)
    deltalake.write_deltalake(warehouse.path("audits"), changed, mode="overwrite")


def age(warehouse: Warehouse, *, days: int) -> None:
    """Let everything that happened to the warehouse have happened days earlier."""
    times = re.compile(r'(?<=imestamp":)\d{13}|(?<=ionTime":)\d{13}|(?<=lastUpdated":)\d{13}')
    for path in pathlib.Path(warehouse.uri).rglob("*"):
        if path.suffix == ".json":
            text = path.read_text(encoding="utf-8")
            earlier = times.sub(lambda found: str(int(found[0]) - days * 86_400_000), text)
            path.write_text(earlier, encoding="utf-8")
        then = path.stat().st_mtime - days * 86_400
        os.utime(path, (then, then))


def commit_night(warehouse: Warehouse, verdict: str, *, day: dt.date = DAY, **changes: Any) -> str:
    """Commit a night of `ads`, and return its id."""
    record = evaluated("ads", day, **INPUTS | {"verdict": verdict} | changes)
    warehouse.commit([record])
    return record.audit.audit_id


def with_wealth(record: AuditRecord, **told: Any) -> AuditRecord:
    """Return the record with other e-values, or other columns beside these."""
    rows = tuple(row.model_copy(update=told) for row in record.wealth)
    return record.model_copy(update={"wealth": rows})


def night(
    ahead: int, wealth: float = 0.0, *, model: str = "ads", hour: int = 0, **changes: Any
) -> AuditRecord:
    """A night so many days after `DAY`, with so much evidence against its declaration."""
    day = DAY + dt.timedelta(days=ahead)
    record = evaluated(model, day, hour=hour, **INPUTS | changes)
    levels = tuple(np.tile(wealth + 1.0 - 2.0 * WINDOW_EPSILONS, 4).tolist())
    return with_wealth(record, window_log_wealth=levels, claimed_log_wealth=(wealth,) * 4)


def latest(model: str, **changes: Any) -> dict[str, Any]:
    """Return a model's latest record as `latest_records` does, with figures of 1."""
    figures = ("epsilon_lower", "epsilon_declared", "sees_from", "sees_from_together")
    return {
        "model": model,
        "secret": "label",
        "day": DAY,
        "verdict_together": "violated",
        "reason_code_together": "this_night",
        "acknowledged_until": DAY,
        **dict.fromkeys(figures, 1.0),
        **changes,
    }

"""One incident per model and declaration: it begins, goes on, and is resolved.

The first night on which a declaration is refuted begins an incident. Later refuted nights belong to
it. A night resolves it that refutes nothing and would probably have seen a false declaration: an
input that cannot be read, an unfaithful proxy or a small holdout resolves nothing, or an owner
could arrange the end of an alert.
"""

import datetime as dt
import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from privcore.lower_bounds import Verdict
from privcore.lower_bounds.power import sensitive
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse

REACH = 28
"""Days for which an incident goes on while no night refutes or resolves. Then it begins anew."""
_CLAIM = ("model", "secret", "epsilon_declared", "delta_declared", "neighbors")
_READ = (*_CLAIM, "audit_id", "day", "status", "verdict", "significance", "holdout_suspect",
         "epsilon_ceiling", "epsilon_detectable")  # fmt: skip


def incident_id(row: AuditRow | Mapping[str, Any]) -> str:
    """Return the id that all alerts about one model's refuted declaration share."""
    content = "\0".join(str(part) for part in _claim(row))
    return str(uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4))


def resolves(row: AuditRow | Mapping[str, Any], standing: str | None) -> bool:
    """Return whether a night ends an incident: not refuted, though it could have been seen.

    Args:
        row: the night's record.
        standing: of all nights up to it.
    """
    declared = _of(row, "epsilon_declared")
    return (
        _of(row, "verdict") == Verdict.CONSISTENT
        and standing != Verdict.VIOLATED
        and not _of(row, "holdout_suspect")
        and declared is not None
        and sensitive(
            epsilon=declared,
            epsilon_ceiling=_of(row, "epsilon_ceiling"),
            epsilon_detectable=_of(row, "epsilon_detectable"),
        )
    )


def open_before(warehouse: Warehouse, rows: Sequence[AuditRow]) -> set[str]:
    """Return the ids of the audits before whose day an incident of their claim was open.

    Raises:
        TransientError: storage kept failing.
    """
    if not rows:
        return set()
    models = pl.Series("model", sorted({row.model for row in rows}))
    first = min(row.day for row in rows) - dt.timedelta(days=REACH)
    audits = warehouse.current(every_secret=True, models=models).filter(
        pl.col("day").is_between(first, max(row.day for row in rows)),
        pl.col("status") == Status.EVALUATED,
    )
    windows = epsilon_windows(warehouse, audits).select("audit_id", "standing")
    nights = audits.select(_READ).join(windows, on="audit_id", how="left").sort("day").to_dicts()
    of_claim: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for night in nights:
        of_claim.setdefault(_claim(night), []).append(night)
    return {row.audit_id for row in rows if _is_open(row.day, of_claim.get(_claim(row), ()))}


def _is_open(day: dt.date, nights: Iterable[Mapping[str, Any]]) -> bool:
    """Return what the last deciding night before `day` left of an incident."""
    state = False
    for night in nights:
        if not day - dt.timedelta(days=REACH) <= night["day"] < day:
            continue
        if Verdict.VIOLATED in {night["verdict"], night["standing"]}:
            state = True
        elif resolves(night, night["standing"]):
            state = False
    return state


def _claim(row: AuditRow | Mapping[str, Any]) -> tuple[object, ...]:
    """Return the claim: two declarations, or two secrets, are two incidents."""
    model, secret, *declared = (_of(row, name) for name in _CLAIM)
    return (model, secret or "label", *declared)


def _of(row: AuditRow | Mapping[str, Any], name: str) -> Any:
    return getattr(row, name) if isinstance(row, AuditRow) else row[name]

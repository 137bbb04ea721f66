"""What people add to audits.

An audit is taken back or deleted, or its violation is known. Everybody who gets alerts hears of
it, since a refutation may go with it.
"""

import datetime as dt
from collections.abc import Iterator

import polars as pl

from flows.notify.alerts import deliver_all
from flows.notify.events import Event, acknowledged, deleted, withdrawn
from flows.notify.metrics import latest_records
from flows.run.audit_requests import this_user
from flows.settings import Settings
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.acknowledgements import Acknowledgement, acknowledge
from workers.warehouse.maintenance import delete_before
from workers.warehouse.nights_together import withdraw_night
from workers.warehouse.store import REFUTES, Warehouse


def withdraw_audit(settings: Settings, audit_id: str, *, why: str) -> tuple[str, ...]:
    """Take an audit back, and send the alert that says so.

    Returns:
        Why the alert was not delivered, if it was not.

    Raises:
        TerminalError: the audit cannot be withdrawn; the sentence says why.
    """
    warehouse = Warehouse(settings.warehouse)
    made = withdraw_night(warehouse, audit_id, why)
    row = warehouse.record(audit_id).audit
    return deliver_all([withdrawn(made, row, this_user(), settings)], settings)


def delete_audits(settings: Settings, day: dt.date) -> tuple[int, tuple[str, ...]]:
    """Delete the audits of all days before one, and alert of each model whose refutations go.

    Returns:
        How many were deleted, and why alerts were not delivered, if some were not.
    """
    warehouse = Warehouse(settings.warehouse)
    events = list(_deletions(warehouse, day, settings))
    return delete_before(warehouse, day), deliver_all(events, settings)


def _deletions(warehouse: Warehouse, day: dt.date, settings: Settings) -> Iterator[Event]:
    """Yield an event for each model of which audits go that refute alone, or with other nights."""
    named = pl.all_horizontal(pl.col("model", "day").is_not_null())
    going = warehouse.scan("audits").filter(named, pl.col("day") < day)
    counted = warehouse.collect(going.group_by("model").agg(REFUTES.sum()).sort("model"))
    latest = latest_records(warehouse, counted["model"])
    violated = {one["model"] for one in latest if one["verdict_together"] == Verdict.VIOLATED}
    for model, count in counted.iter_rows():
        what = f"of which {count} refute what {model} declared"
        if not count:
            what = f"and with its other nights those of {model} refute what it declared"
        if count or model in violated:
            yield deleted(model, day, what, this_user(), settings)


def acknowledge_violation(
    settings: Settings, audit_id: str, *, why: str, until: dt.date
) -> tuple[Acknowledgement, tuple[str, ...]]:
    """Store that the caller knows of a violation, and send the alert that says so.

    Returns:
        What was stored, and why the alert was not delivered, if it was not.

    Raises:
        TerminalError: the violation cannot be acknowledged; the sentence says why.
    """
    warehouse = Warehouse(settings.warehouse)
    row = warehouse.record(audit_id).audit
    now = dt.datetime.now(dt.UTC)
    made = acknowledge(warehouse, audit_id, why=why, until=until, by=this_user(), now=now)
    return made, deliver_all([acknowledged(made, row, settings)], settings)

"""Acknowledgement of a violation: checked, stored, and reported to everybody who gets alerts."""

import datetime as dt

from flows.notify.alerts import acknowledgement_alert, deliver_all
from flows.run.own_run import asked_by
from flows.settings import Settings
from workers.warehouse.acknowledgements import Acknowledgement, acknowledge
from workers.warehouse.store import Warehouse


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
    made = acknowledge(warehouse, audit_id, why=why, until=until, by=asked_by(), now=now)
    return made, deliver_all([acknowledgement_alert(made, row, settings)], settings)

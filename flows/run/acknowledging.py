"""Acknowledgement of a violation: checked, stored, and reported to everybody who gets alerts."""

import datetime as dt

from flows.notify.alerts import Alert, acknowledgement_alert, deliver_all
from flows.notify.public import public_acknowledgement_alert
from flows.run.own_run import asked_by
from flows.run.statements import published_nights
from flows.settings import Settings
from privcore.exceptions import TerminalError
from workers.publication.erased import Published
from workers.publication.statement_row import PublicVerdict
from workers.warehouse.acknowledgements import Acknowledgement, acknowledge
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse


def acknowledge_violation(
    settings: Settings, audit_id: str, *, why: str, until: dt.date
) -> tuple[Acknowledgement, tuple[str, ...]]:
    """Store that the caller knows of a violation, and send the alert that says so.

    Where statements are published, the statement must refute the declaration, too: otherwise the
    alert and the page would tell what the exact record says.

    Returns:
        What was stored, and why the alert was not delivered, if it was not.

    Raises:
        TerminalError: the violation cannot be acknowledged; the sentence says why.
    """
    warehouse = Warehouse(settings.warehouse)
    row = warehouse.record(audit_id).audit
    statement = None if settings.publication is None else _refuting(row, settings)
    now = dt.datetime.now(dt.UTC)
    made = acknowledge(warehouse, audit_id, why=why, until=until, by=asked_by(), now=now)
    alert: Alert = (
        acknowledgement_alert(made, row, settings)
        if statement is None
        else public_acknowledgement_alert(statement, until=until, moment=now, settings=settings)
    )
    return made, deliver_all([alert], settings)


def _refuting(row: AuditRow, settings: Settings) -> Published:
    """Return the published statement of an audit that refutes the declaration.

    Raises:
        TerminalError: there is none.
    """
    for night in published_nights([row], settings):
        made = night.statement
        if isinstance(made, Published) and made.verdict == PublicVerdict.VIOLATED:
            return made
    raise TerminalError(
        f"No published statement refutes what {row.model} declared for {row.day}. With "
        "[publication] only a violation that a statement shows can be acknowledged, because the "
        "alert and the page would reveal the exact record."
    )

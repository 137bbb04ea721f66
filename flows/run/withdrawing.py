"""Withdrawal of an audit: stored, and reported to everybody who gets alerts."""

from flows.notify.alerts import deliver_all, withdrawal_alert
from flows.notify.public import public_withdrawal_alert
from flows.run.own_run import asked_by
from flows.settings import Settings
from workers.warehouse.store import Warehouse


def withdraw_audit(settings: Settings, audit_id: str, *, why: str) -> tuple[str, ...]:
    """Take an audit back, and send the alert that says so: a refutation may have been taken back.

    Where statements are published, the alert says neither what the audit came to nor why it was
    taken back, since labels decide the one, and a person may have written a figure into the other.

    Returns:
        Why the alert was not delivered, if it was not.

    Raises:
        TerminalError: the audit cannot be withdrawn; the sentence says why.
    """
    warehouse = Warehouse(settings.warehouse)
    made = warehouse.withdraw(audit_id, why)
    row = warehouse.record(audit_id).audit
    alert = (
        withdrawal_alert(made, row, asked_by() or "An unknown user", settings)
        if settings.publication is None
        else public_withdrawal_alert(
            row.model, row.day, moment=made.withdrawn_at, settings=settings
        )
    )
    return deliver_all([alert], settings)

"""Work for audits whose run ended without them: a record each, their alerts, the report."""

import datetime as dt

from flows.ledger import Ledger
from flows.notify.alerts import alert_of, deliver_all
from flows.notify.public import PublicNight, public_alert
from flows.run.publish import publish
from flows.settings import load_settings
from privcore.exceptions import TransientError
from workers.audit.record import error_record
from workers.warehouse.store import Warehouse


class RunEndedError(TransientError):
    """The run that was to make an audit ended before it had a record."""


def record_lost(ledger: Ledger, why: str) -> list[str]:
    """Commit an error for everything that is left, tell whom it concerns, and draw the report.

    Returns the models and days in words.
    """
    settings = load_settings(ledger.settings)
    warehouse = Warehouse(settings.warehouse)
    lost, alerts = [], []
    for (model, day), overrides in ledger.left.items():
        plan = settings.plan_of(model, overrides)
        error = RunEndedError(why)
        record = error_record(model, dt.date.fromisoformat(day), plan=plan, error=error)
        warehouse.commit(record)
        lost.append(f"{model} for {day}")
        night = PublicNight(model, record.audit.day, None)
        public = settings.publication is not None
        alert = public_alert(night, settings) if public else alert_of(record.audit, settings)
        if alert is not None:
            alerts.append(alert)
    deliver_all(alerts, settings)  # every record is committed before a webhook can delay one
    publish(settings)
    return lost

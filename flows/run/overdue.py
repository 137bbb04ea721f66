"""Alerts for models that have no audit at their deadline."""

import datetime as dt

import polars as pl
import prefect
from prefect.runtime import flow_run

from flows.notify.alerts import deliver_all
from flows.notify.events import missing
from flows.notify.webhook import WebhookError
from flows.run.days import check_days
from flows.settings import Settings, load_settings
from privcore.exceptions import AuditError
from workers.warehouse.store import CONFIGURED, Warehouse


class AuditsMissingError(AuditError):
    """Models have no audit although their deadline has passed."""

    def __init__(self, models: tuple[str, ...], day: dt.date) -> None:
        self.models = models
        self.day = day
        super().__init__(
            f"No audit of {', '.join(models)} for {day} by the deadline: see whether nightly-audit "
            f"ran, then privaudit backfill --first {day} --last {day}."
        )


def overdue_models(settings: Settings, day: dt.date, *, now: dt.datetime) -> tuple[str, ...]:
    """Return the configured models that lack a record of `day` although their deadline passed.

    One of each secret that the settings ask for. A record without figures counts: its own alert has
    been delivered. An exploratory one does not: it is under another plan than the settings'. What
    was withdrawn is none.
    """
    warehouse = Warehouse(settings.warehouse)
    recorded = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("day") == day, CONFIGURED)
        .select("audit_id", "model", "secret")
    )
    withdrawn = warehouse.withdrawn(recorded["audit_id"])
    there = {(model, secret) for one, model, secret in recorded.rows() if one not in withdrawn}
    return tuple(
        model.name
        for model in settings.models
        if any((model.name, one.secret_name) not in there for one in settings.plans_of(model.name))
        and now >= settings.deadline_of(model.name, day)
    )


@prefect.flow(name="overdue", validate_parameters=True, persist_result=False)
def overdue(day: dt.date | None = None, settings: str | None = None) -> None:
    """Alert for every model that has no audit at its deadline.

    Args:
        day: the audited day; the day before the scheduled time if left out.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Raises:
        AuditsMissingError: some have none; each alert was sent.
        WebhookError: an alert could not be delivered; all the others were.
    """
    loaded = load_settings(settings)
    now = dt.datetime.now(dt.UTC)
    audited = day or loaded.yesterday(flow_run.scheduled_start_time or now)
    if day is not None:
        check_days(loaded, [model.name for model in loaded.models], day, day)
    models = overdue_models(loaded, audited, now=now)
    if undelivered := deliver_all((missing(one, audited, loaded) for one in models), loaded):
        raise WebhookError(" ".join(undelivered))
    if models:
        raise AuditsMissingError(models, audited)

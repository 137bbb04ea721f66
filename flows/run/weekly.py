"""The flow `weekly-digest`: one message about the week, through all that alerts go to."""

import datetime as dt

import polars as pl
import prefect
from prefect.runtime import flow_run

from flows.notify.alerts import Alert, deliver_all
from flows.notify.digest import WEEK, digest_alert, public_week_sentences, week_sentences
from flows.notify.incidents import courses
from flows.notify.webhook import WebhookError
from flows.report.known_windows import stored_windows
from flows.settings import Settings, load_settings
from workers.publication.statement_store import Statements
from workers.warehouse.acknowledgements import last_days
from workers.warehouse.schema import Status
from workers.warehouse.store import Warehouse


def digest_of(settings: Settings, day: dt.date, *, today: dt.date) -> Alert:
    """Return the message about the week that ends with `day`: of statements if published."""
    warehouse, first = Warehouse(settings.warehouse), day - WEEK
    if settings.publication is not None:
        sentences = public_week_sentences(
            Statements(settings.publication.statements).all(),
            first=first,
            last=day,
            acknowledged=last_days(warehouse),
            settings=settings,
        )
    else:
        figures = pl.col("status") == Status.EVALUATED
        rows = warehouse.scan("audits").filter(figures, pl.col("day").is_between(first, day))
        audited = warehouse.collect(rows.select("model").unique())["model"].to_list()
        windows, listed = stored_windows(settings.report), [model.name for model in settings.models]
        found = courses(warehouse, first, day, windows, listed=listed)
        sentences = week_sentences(found, audited=audited, settings=settings, today=today)
    return digest_alert(sentences, day=day, settings=settings)


def send_digest(settings: Settings, day: dt.date, *, today: dt.date) -> Alert:
    """Send the message about a week, and return it.

    Raises:
        WebhookError: the webhook did not accept it.
    """
    alert = digest_of(settings, day, today=today)
    if undelivered := deliver_all([alert], settings):
        raise WebhookError(" ".join(undelivered))
    return alert


@prefect.flow(name="weekly-digest", validate_parameters=True, persist_result=False)
def weekly_digest(day: dt.date | None = None, settings: str | None = None) -> None:
    """Send one message about the week that ends with an audited day.

    Args:
        day: the last audited day; the day before the scheduled time if left out.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Raises:
        WebhookError: the webhook did not accept it.
    """
    loaded = load_settings(settings)
    now = flow_run.scheduled_start_time or dt.datetime.now(dt.UTC)
    send_digest(loaded, day or loaded.yesterday(now), today=now.astimezone(dt.UTC).date())

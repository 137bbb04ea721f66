"""Delivery of events: to Prefect's server, and to the webhook of the settings."""

from collections.abc import Iterable

from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

from flows.notify.events import Event
from flows.notify.prefect_context import in_prefect, run_log
from flows.notify.webhook import WebhookError, send
from flows.settings import Settings


def deliver(event: Event, settings: Settings) -> None:
    """Emit an event to Prefect, and send it to the webhook if there is one."""
    emit(event)
    if settings.webhook is not None:
        send(settings.webhook, event.payload())


def deliver_all(events: Iterable[Event], settings: Settings) -> tuple[str, ...]:
    """Deliver events, each whatever became of the others; return why some were not delivered."""
    undelivered = []
    for event in events:
        try:
            deliver(event, settings)
        except WebhookError as error:
            run_log().error("%s", error)  # no traceback: one sentence
            undelivered.append(str(error))
    return tuple(undelivered)


def emit(event: Event) -> None:
    """Emit one event to Prefect alone; without a server, none is started to hear it."""
    if not in_prefect() and not PREFECT_API_URL.value():
        return
    emit_event(
        event=event.kind,
        resource={
            "prefect.resource.id": f"privaudit.model.{event.model}",
            "prefect.resource.name": event.model,
            "privaudit.model": event.model,
            "privaudit.day": event.day.isoformat(),
            "privaudit.stage": event.stage or "",
        },
        payload=event.payload(),
        id=event.id,
    )

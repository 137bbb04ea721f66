"""Delivery of events: to Prefect's server, and to the webhook of the settings.

The webhook gets JSON, signed with HMAC-SHA256, retried with growing pauses. The receiver checks
that `X-Privaudit-Signature` is `sha256=` and the hex HMAC of the timestamp in
`X-Privaudit-Timestamp`, a full stop and the body as received; refuses timestamps that are minutes
old; and drops a body whose `id` it has seen.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Iterable
from typing import Any

import httpx
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

from flows.notify.events import Event
from flows.notify.prefect_context import in_prefect, run_log
from flows.settings import Settings, WebhookSettings
from privcore.exceptions import TransientError
from workers.patience import Patience

SIGNATURE = "X-Privaudit-Signature"
TIMESTAMP = "X-Privaudit-Timestamp"
_PATIENCE = Patience(attempts=5, first=2.0, longest=30.0)
_TIMEOUT = 10.0
"""Seconds for one try, until the answer's status is there."""
_REST = 600.0
"""Seconds for which a webhook is left alone that gave no answer to an alert."""
_rests: dict[str, float] = {}
"""End of each webhook's rest, by its address."""


class WebhookError(TransientError):
    """The webhook did not take an alert; the sentence says what it answered."""


def send(
    webhook: WebhookSettings, payload: dict[str, Any], *, patience: Patience = _PATIENCE
) -> None:
    """POST a payload, patiently.

    Redirects are not followed: a signed alert goes where the settings say and nowhere else.

    A webhook that stayed away for an alert is left alone for ten minutes, so that it delays a night
    by minutes, whatever the number of alerts.

    Raises:
        WebhookError: no try was answered with 2xx, or the webhook is left alone; a 4xx that
            repeating cannot change (any but 408 and 429) ends the tries at once.
    """
    if time.monotonic() < _rests.get(webhook.url, 0.0):
        raise WebhookError(
            f"The alert {payload.get('subject')!r} was not sent: the webhook did not take an "
            f"earlier one, and is left alone for {_REST:.0f} seconds. Check webhook.url and "
            "webhook.secret, then send again with privaudit overdue or a rerun."
        )
    body = json.dumps(payload, allow_nan=False, sort_keys=True).encode()

    def post() -> None:
        try:
            status = asyncio.run(_post(webhook, body))
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            raise _RefusedError(type(error).__name__) from None
        if not httpx.codes.is_success(status):
            final = httpx.codes.is_client_error(status) and status not in {408, 429}
            raise _RefusedError(f"status {status}", final=final)

    try:
        patience.retry(post, lambda error: isinstance(error, _RefusedError) and not error.final)
    except _RefusedError as error:
        if not error.final:
            _rests[webhook.url] = time.monotonic() + _REST
        raise WebhookError(
            f"The webhook did not take the alert {payload.get('subject')!r} ({error}): check "
            "webhook.url and webhook.secret, then send again with privaudit overdue or a rerun."
        ) from None


class _RefusedError(Exception):
    """One try was not answered with 2xx; where that is `final`, repeating cannot correct it."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


async def _post(webhook: WebhookSettings, body: bytes) -> int:
    """Return the status that a POST is answered with within `_TIMEOUT` seconds, first to last.

    Nothing but the status is read: an answer may be endless, or unpack to gigabytes. It is asked
    in a loop of its own, since a timeout of httpx bounds each read and not all of them.

    Raises:
        httpx.HTTPError, TimeoutError, OSError: there was no answer.
    """
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "privaudit",
        TIMESTAMP: timestamp,
        SIGNATURE: sign(webhook.secret.get_secret_value(), timestamp, body),
    }
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            httpx.AsyncClient(timeout=_TIMEOUT) as client,
            client.stream("POST", webhook.url, content=body, headers=headers) as answer,
        ):
            return answer.status_code
    except (httpx.InvalidURL, UnicodeError):  # of an address with control characters, or no host
        raise httpx.UnsupportedProtocol("The address is none.") from None


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a body sent at a time (seconds since 1970, as text)."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


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

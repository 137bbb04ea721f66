"""Delivery of events: to Prefect's server, and to the webhook of the settings.

The webhook gets JSON, signed with HMAC-SHA256, retried with growing pauses. The receiver checks
that `X-Privaudit-Signature` is `sha256=` and the hex HMAC of the timestamp in
`X-Privaudit-Timestamp`, a full stop and the body as received; refuses timestamps that are minutes
old; and drops a body whose `id` it has seen.
"""

import asyncio
import datetime as dt
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import prefect
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.events import emit_event
from prefect.events.actions import SendNotification
from prefect.settings import PREFECT_API_URL

from flows.notify.events import Event, Kind
from flows.notify.prefect_context import in_prefect, run_log
from flows.settings import Settings, WebhookSettings
from privcore.exceptions import TerminalError, TransientError
from workers.patience import ONCE, Patience

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
    return await answered(webhook.url, body, _headers(webhook, body))


async def answered(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Return the status that a POST is answered with within `_TIMEOUT` seconds, first to last.

    Nothing but the status is read: an answer may be endless, or unpack to gigabytes. It is asked
    in a loop of its own, since a timeout of httpx bounds each read and not all of them. Redirects
    are not followed.

    Raises:
        httpx.HTTPError, TimeoutError, OSError: there was no answer.
    """
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            httpx.AsyncClient(timeout=_TIMEOUT) as client,
            client.stream("POST", url, content=body, headers=dict(headers)) as answer,
        ):
            return answer.status_code
    except (httpx.InvalidURL, UnicodeError):  # of an address with control characters, or no host
        raise httpx.UnsupportedProtocol("The address is none.") from None


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a body sent at a time (seconds since 1970, as text)."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


def _headers(webhook: WebhookSettings, body: bytes) -> dict[str, str]:
    timestamp = str(int(time.time()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "privaudit",
        TIMESTAMP: timestamp,
        SIGNATURE: sign(webhook.secret.get_secret_value(), timestamp, body),
    }


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


TEST = "privaudit.notification.test"
"""The event of a test message. No automation waits for it."""
_SUBJECT = "privaudit: a test message"
_BODY = (
    "A person sent this message with privaudit notify --test. It is about no model. If you can "
    "read it, alerts arrive here too."
)
_AUTOMATIONS = "privaudit "
"""Beginning of the names of the automations in deploy/."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Result of one test message: where it went, whether it was accepted, and a sentence."""

    what: str
    ok: bool
    sentence: str


def send_tests(settings: Settings) -> Iterator[Sent]:
    """Send one test message to the webhook and to each block; yield what became of each.

    An accepted message was handed to the receiver. Only a person sees whether it arrived.

    The blocks are those that privaudit's automations of the Prefect server use.

    Raises:
        TerminalError: nothing is configured.
    """
    blocks = list(_blocks())
    if settings.webhook is None and not blocks:
        raise TerminalError(
            "No notification is configured: set [webhook] in the settings, or make the automations "
            "of deploy/notifications.yaml."
        )
    if settings.webhook is not None:
        webhook = settings.webhook
        yield _tried("webhook", lambda: send(webhook, _test_payload(), patience=ONCE))
    for identity, name in blocks:
        yield _tried(f"block {name}", lambda identity=identity: _notify(identity))  # type: ignore[misc]


def _test_payload() -> dict[str, Any]:
    """Return a body with the fields of an event; its id is new, so no receiver drops it."""
    told = Event(Kind.EVALUATED, "", dt.datetime.now(dt.UTC).date(), _SUBJECT, _BODY)
    return told.payload() | {"event": TEST, "id": str(uuid.uuid4())}


def _blocks() -> Iterator[tuple[uuid.UUID, str]]:
    """Yield id and name of each block; without a Prefect server, none is started to look."""
    if not PREFECT_API_URL.value():
        return
    with prefect.get_client(sync_client=True) as client:
        actions = (
            action
            for automation in client.read_automations()
            if automation.name.startswith(_AUTOMATIONS)
            for action in automation.actions
            if isinstance(action, SendNotification)
        )
        for identity in dict.fromkeys(action.block_document_id for action in actions):
            document = client.read_block_document(identity)
            kind = document.block_type.slug if document.block_type else "block"
            yield identity, f"{kind}/{document.name}"


def _notify(identity: uuid.UUID) -> None:
    block = Block.load_from_ref(identity)
    if not isinstance(block, NotificationBlock):
        raise TerminalError("The block cannot send notifications: choose a notification block.")
    notify: Any = block.notify  # typed as a coroutine; outside of a loop it runs at once
    with block.raise_on_failure():  # otherwise Apprise's refusal is only logged
        notify(_BODY, _SUBJECT)


def _tried(what: str, deliver: Callable[[], object]) -> Sent:
    """Send one message; an error is named by its kind, since its text may hold a block's secret."""
    try:
        deliver()
    except (TerminalError, WebhookError) as error:
        return Sent(what, ok=False, sentence=str(error))
    except httpx.HTTPStatusError as error:
        why = f"status {error.response.status_code}"
    except Exception as error:  # noqa: BLE001  # whatever the block raises is this trial's answer
        why = type(error).__name__
    else:
        return Sent(what, ok=True, sentence="the message was accepted: see whether it arrived")
    return Sent(
        what,
        ok=False,
        sentence=f"the message was not accepted ({why}): check the block's address and its secret",
    )

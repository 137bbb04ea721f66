"""One test message through everything that alerts go to: the webhook, and Prefect's blocks."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import prefect
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.events.actions import SendNotification
from prefect.settings import PREFECT_API_URL

from flows.notify.events import Event, Kind
from flows.notify.webhook import WebhookError, send
from flows.settings import Settings
from privcore.exceptions import TerminalError
from workers.patience import ONCE

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
        yield _tried("webhook", lambda: send(webhook, _payload(), patience=ONCE))
    for identity, name in blocks:
        yield _tried(f"block {name}", lambda identity=identity: _notify(identity))  # type: ignore[misc]


def _payload() -> dict[str, Any]:
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

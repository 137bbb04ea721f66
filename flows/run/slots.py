"""Number of audits at once: over all runs on a standing server, or in this process."""

import functools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import prefect
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists
from prefect.settings import PREFECT_API_URL

from flows.notify.prefect_context import best_effort
from privcore.exceptions import TransientError

LIMIT = "privaudit-audits"
"""Name of the global concurrency limit; its size is `night.concurrency`."""
_LEASE = 60.0
"""Seconds after which a standing server frees the slot of a run that was killed."""


def set_limit(number: int) -> None:
    """Give the standing server's global concurrency limit its size, if there is such a server."""
    if _stands():
        with (
            prefect.get_client(sync_client=True) as client,
            suppress(ObjectAlreadyExists),  # another run has just made it
        ):
            client.upsert_global_concurrency_limit_by_name(LIMIT, number)


@contextmanager
def slot(number: int) -> Iterator[None]:
    """Hold one of `number` slots, and wait for it: of a standing server's limit or this process's.

    A slot that a server does not take back is free after a minute: its audit is done, and did not
    fail.

    Raises:
        TransientError: the standing server gave no slot, as while it starts again.
    """
    held = ExitStack()
    try:
        held.enter_context(concurrency(LIMIT, lease_duration=_LEASE) if _stands() else _own(number))
    except ConcurrencySlotAcquisitionError as error:
        raise TransientError(
            f"Prefect's server gave no slot of {LIMIT} ({error}): see whether it runs, then "
            "try again."
        ) from error
    try:
        yield
    finally:
        with best_effort("a slot that is free again"):
            held.close()


def _stands() -> bool:
    return bool(PREFECT_API_URL.value())


@functools.cache
def _own(number: int) -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(number)

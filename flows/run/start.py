"""Start a flow from a terminal: under Prefect if a server answers, otherwise without it.

Without a server, no page would show the run afterwards, and starting a server takes longer than a
small audit. Both ways call the same functions with the same number of attempts, and run the same
number of audits at once.
"""

import logging
from typing import Any

import httpx
import prefect
from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.notify.prefect_context import VIOLATED
from flows.run.attempts import stoppable

_PATIENCE = 10.0
"""Seconds in which a server answers that it is there."""
_log = logging.getLogger(__name__)


def start(flow: Flow[..., Any], **parameters: Any) -> Any:
    """Run a flow and return its result; its exceptions are raised.

    Args:
        flow: a flow whose tasks are started through `flows.run.attempts`.
        parameters: the flow's parameters. Without a server they are passed on without validation.

    A server that does not answer is left out with a warning: no audit needs one.
    """
    url = PREFECT_API_URL.value()
    away = _why_away() if url else None
    if url and away is None:
        there: State[Any] = flow(**parameters, return_state=True)  # type: ignore[assignment]
        return there.result(raise_on_failure=there.name != VIOLATED)
    if away is not None:
        _log.warning(
            "Prefect's server at %s does not answer (%s): this run goes on without it, and no "
            "page or automation of Prefect shows it. Start the server, or correct PREFECT_API_URL.",
            _without_login(url or ""),
            away,
        )
    with temporary_settings(restore_defaults={PREFECT_API_URL}), stoppable():
        ended = flow.fn(**parameters)
    return ended.data if isinstance(ended, State) else ended


def _why_away() -> str | None:
    """Return what kept a server from answering; None where it answers."""
    try:
        with prefect.get_client(httpx_settings={"timeout": _PATIENCE}, sync_client=True) as client:
            error = client.api_healthcheck()
    except Exception as unusable:  # noqa: BLE001  # what is no address is refused in many ways
        error = unusable
    return None if error is None else type(error).__name__


def _without_login(url: str) -> str:
    """Return an address without a password that stands in it."""
    try:
        return str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    except httpx.InvalidURL:
        return "PREFECT_API_URL"

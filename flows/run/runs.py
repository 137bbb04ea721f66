"""Runs of flows: under Prefect if a server answers, otherwise in this process.

Without a server, no page would show the run afterwards, and starting a server takes longer than a
small audit. Both ways call the same functions with the same number of attempts, and run the same
number of audits at once.

An automation starts a run again that crashed. The crash may have come between a record and its
alert, so what was committed since the first start is audited again, to the same record and alert.
"""

import contextvars
import datetime as dt
import functools
import itertools
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import prefect
from prefect import Flow, Task
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run, task_run
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.notify.prefect_context import VIOLATED, best_effort, in_prefect, run_log
from privcore.exceptions import TransientError, is_failure
from workers.patience import Patience

PATIENCE = Patience(attempts=4, first=4.0, longest=30.0)
"""Patience with transient failures of a whole audit. Storage has its own below it."""
_attempt: contextvars.ContextVar[int] = contextvars.ContextVar("privaudit_attempt", default=1)
_stopped = threading.Event()


def worth_another(_task: Any, _run: Any, state: Any) -> bool:
    """Tell Prefect whether to try a failed task again: only transient errors are tried again."""
    return isinstance(state.result(raise_on_failure=False), TransientError)


RETRIES: dict[str, Any] = {
    "retries": PATIENCE.attempts - 1,
    "retry_delay_seconds": list(PATIENCE.waits()),
    "retry_jitter_factor": PATIENCE.spread,
    "retry_condition_fn": worth_another,
}
"""`PATIENCE`, as options of a Prefect task."""


def submit(task: Task[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Start a task. Return a function that waits for it and returns its value or its exception."""
    if in_prefect():
        return partial(task.submit(*arguments).result, raise_on_failure=False)
    future: Future[Any] = Future()
    carry = partial(contextvars.copy_context().run, _try, task, arguments)

    def outcome() -> Any:
        return future.exception() or future.result()

    # A daemon thread: a process that was asked to stop does not wait for it.
    threading.Thread(
        target=_settle, args=(future, carry), name=f"{task.name} of this process", daemon=True
    ).start()
    return outcome


def last_attempt() -> bool:
    """Return whether the task in this thread has no further attempt."""
    return (task_run.run_count or _attempt.get()) >= PATIENCE.attempts


@contextmanager
def stoppable() -> Iterator[None]:
    """Keep threads from retries and records once a request to stop ends the block."""
    _stopped.clear()
    try:
        yield
    except BaseException as error:
        if not is_failure(error):
            _stopped.set()
        raise


def stopped() -> bool:
    """Return whether this process was asked to stop."""
    return _stopped.is_set()


def go_on() -> None:
    """Raise `TransientError` if this process was asked to stop."""
    if stopped():
        raise TransientError("This process was asked to stop.")


def _try(task: Task[..., Any], arguments: tuple[Any, ...]) -> Any:
    numbers = itertools.count(1)

    def once() -> Any:
        _attempt.set(next(numbers))
        return task.fn(*arguments)

    def again(error: Exception) -> bool:
        if not isinstance(error, TransientError) or stopped():
            return False
        run_log().info("%s is tried again: %s", task.name, error)
        return True

    return PATIENCE.retry(once, again)


def _settle(future: "Future[Any]", carry: Callable[[], Any]) -> None:
    try:
        future.set_result(carry())
    except BaseException as error:  # noqa: BLE001  # it is the outcome
        future.set_exception(error)


_PATIENCE = 10.0
"""Seconds in which a server answers that it is there."""
_log = logging.getLogger(__name__)


def start(flow: Flow[..., Any], **parameters: Any) -> Any:
    """Run a flow whose tasks `submit` starts and return its result; its exceptions are raised.

    A server that does not answer is left out with a warning: no audit needs one. Without a server
    parameters are passed on without validation.
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


@functools.lru_cache(maxsize=16)
def _first_start(run: str) -> dt.datetime | None:
    """Return what the server knows of a run; None also where it does not answer.

    It is asked once a run, since a night of many records would wait for each answer.
    """
    with (
        best_effort("the question of when this run began"),
        prefect.get_client(sync_client=True) as client,
    ):
        found = client.read_flow_run(uuid.UUID(run))
        return found.start_time if found.run_count > 1 else None
    return None


def first_start() -> dt.datetime | None:
    """Return when this run was first started; None where this is its first start, or outside."""
    run = flow_run.id
    return None if run is None else _first_start(str(run))

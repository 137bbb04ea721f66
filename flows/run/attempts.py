"""Run a task with several attempts: by Prefect inside its runs, otherwise in this process."""

import contextvars
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from prefect import Task
from prefect.runtime import task_run

from flows.notify.prefect_context import in_prefect, run_log
from privcore.exceptions import TransientError, is_failure
from workers.patience import Patience

PATIENCE = Patience(attempts=4, first=4.0, longest=30.0)
"""Patience with transient failures of a whole audit. Storage has its own below it."""
_attempt: contextvars.ContextVar[int] = contextvars.ContextVar("privaudit_attempt", default=1)
_stopped = threading.Event()


def worth_another(_task: Any, _run: Any, state: Any) -> bool:
    """Tell Prefect whether to try a failed task again: only transient errors are tried again."""
    try:
        state.result()
    except TransientError:
        return True
    except Exception:  # noqa: BLE001  # whatever else it is, trying again cannot help
        return False
    return False


RETRIES: dict[str, Any] = {
    "retries": PATIENCE.attempts - 1,
    "retry_delay_seconds": list(PATIENCE.waits()),
    "retry_jitter_factor": PATIENCE.spread,
    "retry_condition_fn": worth_another,
}
"""`PATIENCE`, as options of a Prefect task."""


def do(task: Task[..., Any], *arguments: Any) -> Any:
    """Run a task in this thread and return its result."""
    return task(*arguments) if in_prefect() else _try(task, arguments)


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

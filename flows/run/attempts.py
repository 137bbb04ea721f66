"""A task's attempts: Prefect's in its runs, else the same ones in a thread of this process."""

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
"""Of what may go away; storage has a patience of its own below it."""
_attempt: contextvars.ContextVar[int] = contextvars.ContextVar("privaudit_attempt", default=1)
_stopped = threading.Event()


def worth_another(_task: Any, _run: Any, state: Any) -> bool:
    """Tell Prefect whether a task that failed is worth another try: of transient errors alone."""
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
"""The same patience as options of a task."""


def do(task: Task[..., Any], *arguments: Any) -> Any:
    """Return what a task returns, from this thread."""
    return task(*arguments) if in_prefect() else _try(task, arguments)


def submit(task: Task[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Begin a task; return what waits for its outcome, which is its value or its exception."""
    if in_prefect():
        return partial(task.submit(*arguments).result, raise_on_failure=False)
    future: Future[Any] = Future()
    carry = partial(contextvars.copy_context().run, _try, task, arguments)

    def outcome() -> Any:
        return future.exception() or future.result()

    # A daemon: who was asked to stop does not wait for what cannot be interrupted.
    threading.Thread(
        target=_settle, args=(future, carry), name=f"{task.name} of this process", daemon=True
    ).start()
    return outcome


def last_attempt() -> bool:
    """Whether the task that this thread carries is not tried again."""
    return (task_run.run_count or _attempt.get()) >= PATIENCE.attempts


@contextmanager
def stoppable() -> Iterator[None]:
    """Where a request to stop ends the block, no thread tries again or takes that for a failure."""
    _stopped.clear()
    try:
        yield
    except BaseException as error:
        if not is_failure(error):
            _stopped.set()
        raise


def stopped() -> bool:
    """Whether somebody asked this process to stop."""
    return _stopped.is_set()


def go_on() -> None:
    """Raise `TransientError` where somebody asked this process to stop."""
    if stopped():
        raise TransientError("Somebody asked this process to stop.")


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

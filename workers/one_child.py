"""A child process for work too small to be shared out: it may crash, and costs no Ray."""

import contextlib
import datetime as dt
import multiprocessing
import signal
from collections.abc import Callable
from typing import Any, Self

from privcore.exceptions import TransientError
from workers.executors import (
    STUCK,
    DeadlinePassedError,
    InProcess,
    Item,
    LostWorkerError,
    Result,
    Shared,
    seconds_left,
    without_panic,
)

_TRIES = 4
"""Number of tries, as Ray tries an item whose worker was lost."""


class OneChild(InProcess):
    """Does the work in one child process, item after item, with the answer of any other executor.

    The child is started with the first item, and again where it was lost. What the function raises
    is raised here; an item that the child kept dying of raises `LostWorkerError`. Leave it, and the
    child is gone, with whatever another thread still asks of it. One thread may ask at a time.
    """

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None
        self._left = False

    def __enter__(self) -> Self:
        """Return this; the child is started when there is work."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it does."""
        self._left = True
        self._stop()

    def _call(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        item: Item,
        deadline: dt.datetime | None,
    ) -> Result:
        for last in (*[False] * (_TRIES - 1), True):
            try:
                value, error = self._ask((function, shared, item), deadline)
            except (EOFError, OSError):
                if self._left:
                    raise TransientError("The audit's child process was killed.") from None
                self._stop()
                continue
            if error is None:
                return value  # type: ignore[no-any-return]
            if last or not isinstance(error, TransientError):
                raise error
        raise LostWorkerError(
            f"The audit's child process was lost {_TRIES} times: the audit itself may be what ends "
            "it."
        )

    def _ask(self, call: tuple[Any, ...], deadline: dt.datetime | None) -> Any:
        if self._process is None:
            # Spawned: Prefect's threads hold locks that a fork would copy.
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
            # Not before it runs: a process that was never started cannot be killed.
            self._process, self._pipe = process, ours
        pipe, answered, longest = self._pipe, False, seconds_left(deadline)
        pipe.send(call)
        try:
            answered = pipe.poll(longest)
        finally:
            if not answered:
                self._stop()  # in the middle of abandoned work, or stopped
        if not answered and longest < STUCK:
            raise DeadlinePassedError(f"The deadline, {deadline}, has passed.")
        if not answered:
            raise TransientError(
                "The audit's child process gave no answer for 20 minutes: check whether it was "
                "stopped (SIGSTOP) and whether the machine has enough memory, then try again."
            )
        return pipe.recv()

    def _stop(self) -> None:
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is None:
            return
        process.kill()  # first: another thread may be waiting at the pipe, and learns it by its end
        process.join()
        with contextlib.suppress(OSError):
            pipe.close()


def _serve(pipe: Any) -> None:
    """Answer every call with its value or its error, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, shared, item = pipe.recv()
            value, raised = None, None
            try:
                value = without_panic(function)(shared, item)
            except Exception as error:  # noqa: BLE001  # whatever it is, the parent raises it
                raised = error
            pipe.send((value, raised))

"""Describe how often an action that may fail for a moment is tried, and how long it is waited for.

An action that never ends is left behind in a thread, which ends with the process.
"""

import contextvars
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """A number of attempts, with waits that double.

    Attributes:
        attempts: total number of attempts.
        first: the first wait, in seconds.
        longest: the longest wait, in seconds, before the random spread.
        spread: each wait grows by a random share of itself up to this, so that many workers that
            failed together do not try again together.
    """

    attempts: int
    first: float
    longest: float
    spread: float = 0.5

    def waits(self) -> tuple[float, ...]:
        """Return the waits before each further attempt, in seconds, without the random spread."""
        return tuple(min(self.longest, self.first * 2.0**n) for n in range(self.attempts - 1))

    def retry(self, action: Callable[[], Result], again: Callable[[Exception], float]) -> Result:
        """Call `action` until it succeeds, and return its result. The last error is raised.

        Args:
            action: the action; it must be safe to repeat.
            again: says whether another attempt may help after an error: 0 for no, 1 for yes, and a
                larger number for a wait that is longer by this factor.
        """
        for wait in self.waits():
            try:
                return action()
            except Exception as error:
                times = again(error)
                if not times:
                    raise
            spread = random.uniform(1.0, 1.0 + self.spread)  # noqa: S311  # no secret, no figure
            time.sleep(min(self.longest, wait * times) * spread)
        return action()


ONCE = Patience(attempts=1, first=0.0, longest=0.0)
"""One attempt, for an action whose user is waiting and can repeat the command."""


def within(seconds: float, action: Callable[[], Result]) -> Result:
    """Return what `action` returns, or raise what it raises.

    Raises:
        TimeoutError: it took longer, and goes on in a thread of its own.
    """
    done: list[Result] = []
    failed: list[BaseException] = []

    def act() -> None:
        try:
            done.append(action())
        except BaseException as error:  # noqa: BLE001  # it is raised where it is waited for
            failed.append(error)

    # A daemon thread: what never answers must not keep the process.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(act,), daemon=True)
    thread.start()
    thread.join(min(max(seconds, 0.0), threading.TIMEOUT_MAX))
    if thread.is_alive():
        raise TimeoutError
    if failed:
        raise failed[0]
    return done[0]

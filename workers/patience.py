"""How often something is tried that may fail for a moment, and how long is waited in between."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """Attempts with waits that double.

    Attributes:
        attempts: tries in all.
        first: seconds of the first wait.
        longest: seconds that no wait exceeds, before it is spread.
        spread: each wait is up to so much of itself longer, at random, so that many who were turned
            away together do not come back together.
    """

    attempts: int
    first: float
    longest: float
    spread: float = 0.5

    def waits(self) -> tuple[float, ...]:
        """Return the seconds before each further attempt, before they are spread."""
        return tuple(min(self.longest, self.first * 2.0**n) for n in range(self.attempts - 1))

    def retry(self, action: Callable[[], Result], again: Callable[[Exception], float]) -> Result:
        """Return what `action` returns, which is harmless to repeat; its last error is raised.

        Args:
            action: what is tried.
            again: whether another attempt may help after an error: 0 for no, 1 for yes, more for a
                wait that is so many times as long as usual.
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
"""For what somebody waits for, who will try again if need be."""

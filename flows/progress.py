"""Progress of flows, for a listener in the same process: the command line is one.

A listener is set for a block of code; what flows and their tasks announce within it reaches the
listener, from whichever thread.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Advance = Callable[[int, int], None]
Listener = Callable[[str, int, int], None]

_LISTENER: ContextVar[Listener | None] = ContextVar("privaudit_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener(what, done, total)` called for every announcement in the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def announce(what: str, done: int, total: int) -> None:
    """Call the listener, if there is one: `done` of `total` parts of something are done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)

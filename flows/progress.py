"""Progress of flows, for a listener in the same process: the command line is one.

A listener is set for a block of code; what flows and their tasks announce within it reaches the
listener, from whichever thread.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """A model whose audit has not begun.

    Attributes:
        missing: the input that is not there yet.
        until: when the night stops waiting for it; None where it does not wait.
    """

    model: str
    missing: str
    until: dt.datetime | None


Listener = Callable[[str, int, int], None]
WaitListener = Callable[[Sequence[Wait], int], None]

_LISTENER: ContextVar[Listener | None] = ContextVar("privaudit_progress", default=None)
_WAIT_LISTENER: ContextVar[WaitListener | None] = ContextVar("privaudit_waits", default=None)


@contextmanager
def listening(listener: Listener, waits: WaitListener | None = None) -> Iterator[None]:
    """Have a listener called for every announcement in the block."""
    token, token_of_waits = _LISTENER.set(listener), _WAIT_LISTENER.set(waits)
    try:
        yield
    finally:
        _LISTENER.reset(token)
        _WAIT_LISTENER.reset(token_of_waits)


def announce_waits(waits: Sequence[Wait], models: int) -> None:
    """Call the listener, if there is one: a night of many models waits for these."""
    listener = _WAIT_LISTENER.get()
    if listener is not None:
        listener(waits, models)


def announce(what: str, done: int, total: int) -> None:
    """Call the listener, if there is one: `done` of `total` parts of something are done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what, done, total)

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


def _nobody(*_: object) -> None:
    """Hear nothing."""


_LISTENERS: ContextVar[tuple[Listener, WaitListener]] = ContextVar(
    "privaudit_progress", default=(_nobody, _nobody)
)


@contextmanager
def listening(listener: Listener, waits: WaitListener = _nobody) -> Iterator[None]:
    """Have a listener called for every announcement in the block."""
    token = _LISTENERS.set((listener, waits))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def announce_waits(waits: Sequence[Wait], models: int) -> None:
    """Call the listener: a night of many models waits for these."""
    _LISTENERS.get()[1](waits, models)


def announce(what: str, done: int, total: int) -> None:
    """Call the listener: `done` of `total` parts of something are done."""
    _LISTENERS.get()[0](what, done, total)

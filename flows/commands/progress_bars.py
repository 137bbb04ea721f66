"""Progress of flows while a command runs: a bar for each audit, or JSON lines."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from flows.commands.printing import print_event
from flows.commands.waits import WaitBar, WaitLines
from flows.progress import listening

_PERIOD = 3_600.0
"""Seconds over which the speed of a bar is estimated: its parts may take minutes."""


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show what flows announce: a bar for each audit, or JSON lines.

    The lines are progress, one a second at most, and what workers log: one line per work unit.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        log, handler = logging.getLogger("workers"), _WorkerLog()
        level = log.level
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            with listening(_Lines().show, WaitLines().show):
                yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        *columns, *times, console=console, transient=True, speed_estimate_period=_PERIOD
    ) as bars:
        known: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total)
            bars.update(known[what], completed=done, total=total)

        with listening(show, WaitBar(bars).show):
            yield


class _Lines:
    """Progress as JSON lines."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def show(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last.get(what, -1.0) >= 1.0:
            self._last[what] = now
            print_event("progress", what=what, done=done, total=total)


class _WorkerLog(logging.Handler):
    """Log of the workers, as JSON lines."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "privaudit", None)
        if fields is not None:
            print_event(**fields)

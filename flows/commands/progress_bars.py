"""Progress and waits of flows while a command runs: bars on a terminal, or JSON lines."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from flows.commands.printing import print_event
from flows.progress import Wait, listening
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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


class WaitLines:
    """Waits as JSON lines: each model once, and again when it waits for something else."""

    def __init__(self) -> None:
        self._printed: set[Wait] = set()

    def show(self, waits: Sequence[Wait], models: int) -> None:
        """Print what is new, and the number of models that are waited for."""
        for one in waits:
            if one not in self._printed:
                event = "left_out" if one.until is None else "waiting"
                until = {} if one.until is None else {"until": one.until}
                print_event(event, model=one.model, missing=one.missing, **until)
        print_event("inputs", there=models - len(waits), models=models)
        self._printed = set(waits)


class WaitBar:
    """Waits as one bar beside the audits' own; what is left out at its end is printed."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._bar: TaskID | None = None

    def show(self, waits: Sequence[Wait], models: int) -> None:
        """Show how many models' inputs are there, and what the first of the others waits for."""
        if waits and waits[0].until is None:
            self._bars.console.print(sentence(waits), markup=False, highlight=False)
            return
        if self._bar is None:
            if not waits:
                return
            self._bar = self._bars.add_task("", total=models)
        self._bars.update(
            self._bar,
            description=sentence(waits) if waits else "Inputs",
            completed=models - len(waits),
            visible=bool(waits),
        )


def sentence(waits: Sequence[Wait]) -> str:
    """Return what is waited for, or left out, in one sentence, however many models there are."""
    first, others = waits[0], len(waits) - 1
    more = f" and {others} other model{'s' if others > 1 else ''}" if others else ""
    what = f"{first.model}{more}"
    if first.until is None:
        return plain_text(f"Left out: {what}. {first.missing} is not there.")
    last = max(one.until for one in waits if one.until is not None)
    return plain_text(
        f"Waiting until {last:%Y-%m-%d %H:%M %Z} for {what}: {first.missing} is not there"
    )

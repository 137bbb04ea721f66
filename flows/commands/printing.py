"""How commands print: tables for a person, JSON for a program; progress on standard error."""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from workers.plain_text import plain_text

if TYPE_CHECKING:
    import polars as pl

_PATIENCE = 2.0
"""Seconds after which work without a bar is reported with a line."""


def print_audits(audits: "pl.DataFrame", *, as_json: bool) -> None:
    """Print rows of `audits` in the columns that matter first."""
    from flows.commands.tables import audits_table

    if as_json:
        print_json(audits)
    else:
        console = Console()
        console.print(audits_table(audits, width=console.width))


def print_frame(frame: "pl.DataFrame", *, as_json: bool) -> None:
    """Print any frame with all of its columns."""
    from flows.commands.tables import frame_table

    if as_json:
        print_json(frame)
    else:
        Console().print(frame_table(frame))


def print_json(frame: "pl.DataFrame") -> None:
    """Print a frame as a list of objects."""
    typer.echo(json.dumps(frame.to_dicts(), default=str, indent=2))


def print_event(event: str, **fields: Any) -> None:
    """Print one JSON line to standard error: what a program that watches a command reads."""
    typer.echo(json.dumps({"event": event, **fields}, default=str), err=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something of unknown length goes on: a spinner, or JSON lines.

    A line says so after two seconds, and one more says when it has ended; what is quicker says
    nothing.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
        return
    began = time.monotonic()
    patience = threading.Timer(_PATIENCE, print_event, ("begin",), {"what": what})
    patience.daemon = True
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
    seconds = time.monotonic() - began
    if seconds >= _PATIENCE:
        print_event("end", what=what, seconds=round(seconds, 1))


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
    )

    from flows.commands.remaining import RemainingColumn
    from flows.progress import listening

    console = Console(stderr=True)
    if not console.is_terminal:
        log, handler = logging.getLogger("workers"), _WorkerLog()
        log.addHandler(handler)
        try:
            with listening(_Lines().show):
                yield
        finally:
            log.removeHandler(handler)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), RemainingColumn())
    with Progress(*columns, *times, console=console, transient=True) as bars:
        known: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total, begun=done)
            bars.update(known[what], completed=done, total=total)

        with listening(show):
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
    """What workers log, as JSON lines."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "privaudit", None)
        if fields is not None:
            print_event(**fields)


def fail(sentence: str, code: int) -> None:
    """End the command with one sentence on standard error."""
    typer.echo(f"privaudit: {plain_text(sentence)}", err=True)
    sys.exit(code)


def quiet() -> None:
    """Keep Prefect's and its server's routine messages away from a person's terminal.

    Called before Prefect is imported.
    """
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "ERROR")
    # What workers log goes into the flow's log, but not twice to a terminal.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    logging.getLogger("httpx").setLevel(logging.ERROR)

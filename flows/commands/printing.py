"""Output of commands: tables for a person, JSON for programs; progress on stderr."""

import json
import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from flows.progress import Wait, listening
from workers.plain_text import plain_text, without_commands

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from flows.study.runner import Written


_ENDLESS = 1_000_000
"""Characters of a line that no terminal wraps."""
_PATIENCE = 2.0
"""Seconds after which work without a bar is reported with a line."""


def console() -> Console:
    """Return where a command prints: as wide as the terminal; for a program, as wide as need be."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_ENDLESS)


def print_rows(frame: "pl.DataFrame", *, as_json: bool) -> None:
    """Print all columns of a frame; without a terminal no line is cut, wrapped, blank or padded."""
    if as_json:
        typer.echo(json_text(frame.to_dicts()))
    else:
        from flows.commands.terminal_tables import frame_table

        print_table(frame_table(frame), console())


def print_audits(audits: "pl.DataFrame", *, as_json: bool) -> None:
    """Print rows of `audits`; as a table, in the columns that matter first."""
    if as_json:
        print_rows(audits, as_json=as_json)
    else:
        from flows.commands.terminal_tables import audits_table

        out = console()
        print_table(audits_table(audits, width=out.width), out)


def print_table(table: "RenderableType", out: Console) -> None:
    """Print a table; for a program without the padding that a terminal does not show either."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if any(lines):  # a table without columns is a blank line
        typer.echo("\n".join(lines))


def say(*sentences: str, aside: bool = False) -> None:
    """Print sentences that are not empty; aside, to standard error, where JSON is the output."""
    for sentence in filter(None, sentences):
        typer.echo(plain_text(sentence), err=aside)


def json_text(content: Any) -> str:
    """Return JSON, which has no infinity and no NaN: null stands in, as for what there is not."""
    return without_commands(json.dumps(_finite(content), default=str, indent=2, allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def print_event(event: str, **fields: Any) -> None:
    """Print one JSON line to standard error: what a program that watches a command reads."""
    typer.echo(without_commands(json.dumps({"event": event, **fields}, default=str)), err=True)


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


def quiet() -> None:
    """Keep Prefect's and its server's routine messages away from a person's terminal.

    Called before Prefect is imported.
    """
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "ERROR")
    # What workers log goes into the flow's log, but not twice to a terminal.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    logging.getLogger("httpx").setLevel(logging.ERROR)


def begin_prefect() -> None:
    """Keep Prefect quiet, and refuse settings of its own that it cannot use in one sentence."""
    from flows.prefect_settings import check_settings

    quiet()
    check_settings()


def print_study(found: "Written", *, as_json: bool) -> None:
    """Print what a study came to.

    JSON is one object of tables, findings and files.
    """
    if as_json:
        typer.echo(found.as_json())
        return
    from flows.commands.terminal_tables import text_table

    out = console()
    for table in found.tables:
        print_table(text_table(table.columns, table.rows, title=table.title), out)
        if out.is_terminal:
            out.print()
    for sentence in found.sentences:
        out.print(f"- {sentence}", highlight=False, markup=False)
    for file in found.files:
        out.print(str(file), soft_wrap=True, highlight=False)


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show what flows announce: a bar for each audit and a line for waits, or JSON lines.

    The JSON lines are progress, one a second at most, waits, and what workers log: one line per
    work unit.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        log, lines = logging.getLogger("workers"), _JsonLines()
        level = log.level
        log.addHandler(lines)
        log.setLevel(logging.INFO)
        try:
            with listening(lines.progress, lines.waits):
                yield
        finally:
            log.removeHandler(lines)
            log.setLevel(level)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        known: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total)
            bars.update(known[what], completed=done, total=total)

        def show_waits(waits: Sequence[Wait], _models: int) -> None:
            if waits:
                bars.console.print(sentence(waits), markup=False, highlight=False)

        with listening(show, show_waits):
            yield


class _JsonLines(logging.Handler):
    """JSON lines of progress, of waits, and of what workers log."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}
        self._waits: set[Wait] = set()

    def progress(self, what: str, done: int, total: int) -> None:
        """Print progress, once a second and at its end."""
        now = time.monotonic()
        if done == total or now - self._last.get(what, -1.0) >= 1.0:
            self._last[what] = now
            print_event("progress", what=what, done=done, total=total)

    def waits(self, waits: Sequence[Wait], models: int) -> None:
        """Print a model once, and again when it waits for more."""
        for one in (each for each in waits if each not in self._waits):
            event = "left_out" if one.until is None else "waiting"
            until = {} if one.until is None else {"until": one.until}
            print_event(event, model=one.model, missing=one.missing, **until)
        print_event("inputs", there=models - len(waits), models=models)
        self._waits = set(waits)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "privaudit", None)
        if fields is not None:
            print_event(**fields)


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

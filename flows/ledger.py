"""Ledger of a run: the planned and the committed audits, for the process that watches over it.

Ray and Prefect's server can end the process that runs the audits without a word. A watching process
knows from this what is left, and makes a record of it. Without a watcher nothing is reported.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_lock = threading.Lock()
_watcher: int | None = None


@contextmanager
def reporting(descriptor: int) -> Iterator[None]:
    """Report to the watcher at the other end of a pipe what this process does in the block."""
    global _watcher  # noqa: PLW0603  # one watcher for all threads
    _watcher = descriptor
    try:
        yield
    finally:
        _watcher = None


def report_to_watcher(**event: Any) -> None:
    """Report one event, if a process watches."""
    if _watcher is not None:
        line = json.dumps(event, default=str).encode() + b"\n"
        with _lock, contextlib.suppress(BrokenPipeError):  # the watcher was killed
            while line:
                line = line[os.write(_watcher, line) :]


@dataclass(slots=True)
class Ledger:
    """Reports of a run.

    Attributes:
        settings: the settings file, as it was given to the flow.
        planned: plan fields besides the settings', by model and day.
        committing: model, day and secret of each record that the warehouse was asked to take, by
            its identifier. The run may have ended before it heard that the record was taken.
        announced: identifiers of the audits whose statement and alert were dealt with.
        committed: models and days, in the order of their commits.
        why: what ended the run before all was done, where that was an unforeseen error.
        code: the exit code that the run meant to end with.
    """

    settings: str | None = None
    planned: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict)
    committing: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    committed: list[tuple[str, str]] = field(default_factory=list)
    why: str | None = None
    code: int | None = None

    @classmethod
    def read(cls, lines: Iterable[bytes]) -> "Ledger":
        """Return what the lines say; the last one may have been cut."""
        ledger = cls()
        for line in lines:
            if not line.endswith(b"\n"):
                break
            event = json.loads(line)
            if "planned" in event:
                ledger.settings = event["settings"]
                for model, day, overrides in event["planned"]:
                    ledger.planned[model, day] = overrides
            elif "committing" in event:
                for audit_id, *of in event["committing"]:
                    ledger.committing[audit_id] = tuple(of)
            elif "announced" in event:
                ledger.announced.add(event["announced"])
            elif "committed" in event:
                ledger.committed.append(tuple(event["committed"]))
            ledger.why = event.get("why", ledger.why)
            ledger.code = event.get("code", ledger.code)
        return ledger

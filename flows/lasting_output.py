"""Standard output and error that outlast their readers, so that no reader decides an exit code.

A build pipes a command into another one (`| head -1`, `| grep -q pass`), which may end first. Then
words go nowhere, and the command goes on: to its records, its alerts and its own exit code.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

_STREAMS = ("stdin", "stdout", "stderr")


def open_closed_streams() -> None:
    """Open the standard streams that the caller closed, so that no other file takes their place.

    What a library prints would else be written into a table or a pipe.
    """
    for number, name in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


@contextlib.contextmanager
def outlasting_readers() -> Iterator[None]:
    """In the block, let standard output and error go on where their reader has gone.

    What the command has to say besides its result costs no audit either: a full disk below
    standard error loses these words alone.
    """
    before = sys.stdout, sys.stderr
    sys.stdout = LastingOutput(sys.stdout)
    sys.stderr = LastingOutput(sys.stderr, optional=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class LastingOutput:
    """A text stream that goes nowhere once its reader has gone; `optional`: whatever fails."""

    def __init__(self, stream: TextIO, *, optional: bool = False) -> None:
        self._stream, self._optional = stream, optional

    def write(self, text: str) -> int:
        """Write text, and return its length."""
        self._or_nowhere(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._or_nowhere(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream itself has."""
        return getattr(self._stream, name)

    def _or_nowhere(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is left to do
                os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            with contextlib.suppress(OSError):
                self._stream.flush()
        except OSError:
            if not self._optional:
                raise

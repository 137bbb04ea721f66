"""Functions that tests run in another process; few imports, so that each child starts fast."""

import os
import pathlib
import signal
import sys
import time

from privcore.exceptions import TransientError
from workers.exceptions import NotEvaluableError, Reason


def times(factor: int, value: int) -> tuple[int, int]:
    return os.getpid(), factor * value


def stops_at(which: int, item: int) -> tuple[None, int]:
    """Stop this process for ever at one item, as a debugger or a freezer does."""
    if item == which:
        os.kill(os.getpid(), signal.SIGSTOP)
    return None, 1


def refuses(_: None, words: str) -> None:
    raise NotEvaluableError(Reason.LABEL_INVALID, words)


def fails(counted: pathlib.Path, often: int) -> tuple[None, int]:
    """Fail the first times in a way that may go away."""
    before = len(counted.read_text())
    counted.write_text("x" * (before + 1))
    if before < often:
        raise TransientError("Storage was away.")
    return None, before + 1


def dies(counted: pathlib.Path, often: int) -> tuple[None, int]:
    """End the process the first times, as C++ does."""
    before = len(counted.read_text())
    counted.write_text("x" * (before + 1))
    if before < often:
        os.kill(os.getpid(), signal.SIGABRT)
    return None, before + 1


def sleeps(_: None, seconds: float) -> tuple[None, float]:
    time.sleep(seconds)
    return None, seconds


def nothing(_shared: None, item: int) -> int:
    """Return the item; runs in the one child."""
    return item


def ends(_shared: int, _item: int) -> int:
    """End the process as if all were well."""
    sys.exit(0)

"""Errors of some work, and errors that ask this process to stop."""

import asyncio
import sys
from typing import Any

import polars as pl
import pytest
from prefect.exceptions import TerminationSignal

from privcore.exceptions import TerminalError, is_failure


class PanicError(BaseException):
    """A library's own, which is no `Exception`."""


def raised_in(module: str, error: BaseException) -> BaseException:
    """Return an error as a function of a module raises it."""
    names: dict[str, Any] = {"__name__": module, "error": error}
    exec("def end(): raise error", names)  # noqa: S102
    with pytest.raises(type(error)) as caught:
        names["end"]()
    return caught.value


def exited() -> BaseException:
    with pytest.raises(SystemExit) as caught:
        sys.exit(0)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        TerminalError("no"),
        pl.exceptions.PanicException("no"),
        PanicError(),
        SystemExit(0),
        exited(),
        raised_in("venv", SystemExit(2)),
        raised_in("rayon", SystemExit(2)),
    ],
    ids=repr,
)
def test_what_a_library_raises_is_a_failure(error: BaseException) -> None:
    assert is_failure(error)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        TerminationSignal(15),
        raised_in("ray._private.node", SystemExit(1)),
        raised_in("ray._raylet", SystemExit(1)),
    ],
    ids=repr,
)
def test_a_request_to_stop_is_none(error: BaseException) -> None:
    assert not is_failure(error)

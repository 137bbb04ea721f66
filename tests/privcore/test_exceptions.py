"""Errors of some work, and errors that ask this process to stop."""

import asyncio
import pickle

import polars as pl
import pytest
from prefect.exceptions import TerminationSignal

from privcore.exceptions import InvalidInputError, TerminalError, is_failure


class PanicError(BaseException):
    """A library's own, which is no `Exception`."""


def raised_in(module, error):
    """Return an error as a function of a module raises it."""
    names = {"__name__": module, "error": error}
    exec("def end(): raise error", names)  # noqa: S102
    with pytest.raises(type(error)) as caught:
        names["end"]()
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        TerminalError("no"),
        pl.exceptions.PanicException("no"),
        PanicError(),
        SystemExit(0),
        raised_in("venv", SystemExit(2)),
        raised_in("rayon", SystemExit(2)),
    ],
    ids=repr,
)
def test_what_a_library_raises_is_a_failure(error):
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
def test_a_request_to_stop_is_none(error):
    assert not is_failure(error)


class TornPageError(TerminalError):
    """An error that is made of more than its sentence, some of it by name."""

    def __init__(self, page, *, line=0):
        super().__init__(f"{page} is torn at {line}.")
        self.page = page
        self.line = line


@pytest.mark.parametrize(
    "error",
    [TornPageError("index", line=3), InvalidInputError("epsilon", -1.0, "it is positive")],
    ids=repr,
)
def test_an_error_crosses_processes_as_it_was_made(error):
    error.add_note("seen on node 2")
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))  # noqa: S301
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))

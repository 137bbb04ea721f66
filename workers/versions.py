"""Versions of the code and of the method that made a figure; both stand in every row."""

import functools
import importlib.metadata
import socket
from collections.abc import Callable
from typing import TypeVar

from privcore.exceptions import TerminalError

METHOD_VERSION = "22"
"""Raised with every change of what a number means; part of `audit_id`."""

CODE_VERSION = importlib.metadata.version("privaudit")

_BOTH = f"{CODE_VERSION} (method version {METHOD_VERSION})"


_Result = TypeVar("_Result")


def by_one_version(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return a function that refuses to work on a node with another version than this process.

    It raises `TerminalError` there.
    """
    begun_by = _BOTH

    @functools.wraps(function)
    def run(*arguments: object) -> _Result:
        _check_same(begun_by)
        return function(*arguments)

    return run


def _check_same(begun_by: str) -> None:
    if begun_by != _BOTH:
        raise TerminalError(
            f"The node {socket.gethostname()} has privaudit {_BOTH}, but the work was begun by "
            f"{begun_by}: install the same on every node."
        )

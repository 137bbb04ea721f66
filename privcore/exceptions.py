"""Every error that privaudit raises on purpose.

One sentence that says what is wrong with which value and what to do. Errors cross process
boundaries (Ray pickles them), so each is rebuilt from its fields. Retries key on the class:
a `TransientError` may go away by itself, a `TerminalError` never does.

Every function refuses an argument outside of the range or shape that its docstring states, or NaN,
with an `InvalidInputError`. What else it refuses stands there under `Raises`.
"""

import functools
from typing import Any, Self


class AuditError(Exception):
    """Base of all errors that privaudit raises on purpose; pickled by what it was made of."""

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Keep what the error is made of: its sentence alone would not make it again."""
        error = super().__new__(cls, *given)
        error._made_of = given, named
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        given, named = self._made_of
        return functools.partial(type(self), **named), given, vars(self)


class TerminalError(AuditError):
    """Trying again with the same input cannot help."""


class TransientError(AuditError):
    """The same call may succeed later: storage was unreachable, a worker was lost."""


_STOPPERS = {"asyncio", "prefect", "ray"}
"""Packages that ask this process to stop with a `BaseException` of their own, or `SystemExit`."""


def is_failure(error: BaseException) -> bool:
    """Return whether an error is a failure of some work, and no request to stop.

    A panic in Rust (polars, deltalake) is no `Exception`, and a failure like any other. A library's
    `SystemExit` is one, too: it may not end the work of all others. Requests to stop are Ctrl-C,
    cancellations, Prefect's signals, and the `SystemExit` of Ray's own signal handlers.
    """
    if isinstance(error, Exception):
        return True
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return False
    module = _raised_in(error) if isinstance(error, SystemExit) else type(error).__module__
    return module.partition(".")[0] not in _STOPPERS


def _raised_in(error: BaseException) -> str:
    """Return the name of the module that raised an error."""
    module, trace = "", error.__traceback__
    while trace is not None:
        module, trace = str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_next
    return module


class InvalidInputError(TerminalError, ValueError):
    """A value breaks a rule of the function that it was given to."""

    def __init__(self, name: str, value: Any, rule: str) -> None:
        self.name = name
        self.value = value
        self.rule = rule
        super().__init__(f"{name} is {value!r}, but {rule}.")


class QueryRefusedError(TerminalError):
    """A queried system does not answer this query, by its own rules."""

    def __init__(self, rule: str, limit: float) -> None:
        self.rule = rule
        self.limit = limit
        super().__init__(f"The queried system refuses to answer: {rule} ({limit:g}).")


class NoBoundsError(TerminalError):
    """A search by doubling ended without a range that holds all records."""

    def __init__(self, column: str) -> None:
        self.column = column
        super().__init__(
            f"No range of {column} within 2^52 cells of 0 seems to hold all records: its answers "
            "are no help, or the column needs bounds."
        )


class ContradictoryAnswersError(TerminalError):
    """A queried system's answers cannot all be true."""

    def __init__(self, found: int, records: int) -> None:
        self.found = found
        self.records = records
        super().__init__(
            f"The queried system's answers contradict each other: by them at least {found:,} "
            f"different records are among {records:,}."
        )


INTERFACE_ERRORS = (QueryRefusedError, NoBoundsError, ContradictoryAnswersError)
"""Failures of a queried system during an attack; none of them is a fault of the attack's input."""

"""Every error that privaudit raises on purpose.

One sentence that says what is wrong with which value and what to do. Errors cross process
boundaries (Ray pickles them), so each is rebuilt from its fields. Retries key on the class:
a `TransientError` may go away by itself, a `TerminalError` never does.
"""

from typing import Any


class AuditError(Exception):
    """Base of all errors that privaudit raises on purpose."""


class TerminalError(AuditError):
    """Trying again with the same input cannot help."""


class TransientError(AuditError):
    """The same call may succeed later: storage was unreachable, a worker was lost."""


class InvalidInputError(TerminalError, ValueError):
    """A value breaks a rule of the function that it was given to."""

    def __init__(self, name: str, value: Any, rule: str) -> None:
        self.name = name
        self.value = value
        self.rule = rule
        super().__init__(f"{name} is {value!r}, but {rule}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value, self.rule)

"""Sources of answers to an attack besides our table: a live system, found by its name; a coin."""

import hashlib
import importlib
import pathlib
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import (
    AuditError,
    InvalidInputError,
    QueryFailedError,
    TransientError,
    UnreadableAnswerError,
)
from privcore.mechanisms import Column, Predicates, QueryInterface
from workers.patience import Patience

_PATIENCE = Patience(attempts=5, first=0.5, longest=4.0)
_QUOTED = 300
"""Letters of a system's error that a record keeps."""


def connect(name: str) -> QueryInterface:
    """Return the interface that a function makes: `module:function`, called without arguments.

    Modules are looked for where Python does, and in the current folder.

    Raises:
        InvalidInputError: there is no such module or function, or what it returns is no
            `QueryInterface`.
        TransientError: the system cannot be reached.
        QueryFailedError: the function failed otherwise.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInputError("interface", name, "it is written as module:function")
    here = str(pathlib.Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInputError("interface", name, f"it cannot be imported: {error}") from None
    make = getattr(module, attribute, None)
    if not callable(make):
        raise InvalidInputError("interface", name, f"{module_name} has no such function")
    try:
        interface = make()
        columns, records = tuple(interface.columns), interface.records
        whole = isinstance(records, int) and records >= 1 and callable(interface.answer)
    except AuditError:
        raise
    except AttributeError:
        whole = False
    except OSError as error:
        raise TransientError(f"The queried system cannot be reached: {error}") from None
    except Exception as error:
        raise QueryFailedError(type(error).__name__, str(error)) from error
    if not whole or not columns or not all(isinstance(column, Column) for column in columns):
        rule = "the function returns an object with columns, records and answer (QueryInterface)"
        raise InvalidInputError("interface", name, rule)
    answering: QueryInterface = interface
    return answering


class LiveInterface:
    """Another interface, asked patiently; all that it answers is digested.

    Where it does not answer (`TransientError`, or any `OSError`, such as a connection that broke),
    it is asked again after half a second, one, two and four, or a little more. Whatever else it
    raises ends the attack, and so does an answer that is not one number per query.
    """

    def __init__(self, interface: QueryInterface) -> None:
        self._interface = interface
        self._digest = hashlib.sha256()
        self.columns: tuple[Column, ...] = tuple(interface.columns)
        self.records: int = interface.records

    @property
    def digest(self) -> str:
        """Digest of every answer so far, in order; the same for the same answers."""
        return self._digest.hexdigest()

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the released answers; `QueryInterface.answer` has the rest."""
        try:
            answers = _PATIENCE.retry(
                lambda: self._interface.answer(predicates, thresholds, epsilon=epsilon),
                lambda error: isinstance(error, TransientError | OSError),
            )
        except (TransientError, OSError) as error:
            said = str(error)[:_QUOTED]
            raise TransientError(f"The queried system did not answer: {said}") from error
        except AuditError:
            raise
        except Exception as error:
            raise QueryFailedError(type(error).__name__, str(error)[:_QUOTED]) from error
        try:
            numbers = np.asarray(answers, dtype=np.float64)
        except (TypeError, ValueError):
            raise UnreadableAnswerError(answers) from None
        self._digest.update(numbers.tobytes())
        return numbers


@dataclass(frozen=True, slots=True)
class Coin:
    """An interface whose answers say nothing of any table: what chance alone gives an attacker."""

    columns: tuple[Column, ...]
    records: int
    random: np.random.Generator

    def answer(
        self,
        predicates: Predicates,  # noqa: ARG002  # it does not look
        thresholds: NDArray[np.int64],
        *,
        epsilon: float,  # noqa: ARG002  # a coin costs nothing
    ) -> NDArray[np.float64]:
        """Return 0.0 or 1.0 for each query, as a fair coin falls."""
        return self.random.integers(0, 2, thresholds.shape).astype(np.float64)

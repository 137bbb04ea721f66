"""Questions about a table's log or catalogue, answered by a contained child.

Writers of a table choose every byte of its log. A log of 77 kB may unpack to 9 GB, and a library
may obey a table's own properties. So a child process with bounds on time and memory opens the
table, and answers in JSON; this process opens none.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from privcore.exceptions import AuditError, TerminalError, TransientError
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.places import local_path

_STORAGE = (
    "AWS_", "AZURE_", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "GOOGLE_",
    "CLOUDSDK_CONFIG", "GCE_METADATA_HOST", "HOME", "PATH", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
_VARIABLES = {
    "workers.sources.tables.delta_log": _STORAGE,
    "workers.sources.tables.iceberg_metadata": (
        *_STORAGE, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT",
    ),
}  # fmt: skip
"""Variables of the environment that each reader needs: a module's child is given no others.

What a catalogue's settings say (`PYICEBERG_CATALOG__...`) is an argument of the question.
"""

_LOGINS = ("~/.aws", "~/.azure", "~/.config/gcloud", "~/.pgpass", "~/.postgresql")
"""Where clients of storage and databases keep logins."""
_NOT_FILES = {"HOME", "PATH"}
"""Variables whose folders hold much that is no login."""
_SQLITE = "sqlite:///"
_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")


def answering(*functions: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return what a child calls: each function by its name, with its value or its refusal."""
    known = {function.__name__: function for function in functions}

    def answer(_content: bytes, question: str, **about: Any) -> dict[str, Any]:
        try:
            return {"value": known[question](**about)}
        except NotEvaluableError as error:
            return {"refused": error.sentence, "reason": error.reason}
        except AuditError as error:
            return {"refused": str(error), "passing": isinstance(error, TransientError)}

    return answer


def ask(module: str, name: str, question: str, *, places: Any, **about: Any) -> Any:
    """Return what a function of a module says of a table, from a process of its own.

    That process reads no file but Python's, the system's, those where logins are, and `places`.

    Args:
        module: whose `answer` is `answering`.
        name: what the table is called in a sentence, like "The Delta table lake/t".
        question: name of the function.
        places: the table's folder, or the properties of its catalogue, some of which name files
            and folders of this machine.
        about: its arguments, which JSON holds.

    Raises:
        NotEvaluableError: the table cannot be read, or not within the bounds.
        TerminalError: this installation cannot read such tables.
        TransientError: storage kept failing, or the child went away.
    """
    logins = map(os.path.expanduser, _LOGINS)
    readable = sorted({*_named_by_variables(module), *logins, *_named_by(places)})
    try:
        answer = _contained(module)(readable=readable, question=question, **about)
    except ContainedError as error:
        reason = Reason.PATH_UNREADABLE if error.kind == "raised" else Reason.TOO_LARGE
        raise NotEvaluableError(
            reason,
            f"{name} cannot be read within {limits.TABLE_SECONDS} seconds and "
            f"{limits.TABLE_MEMORY_BYTES >> 30} GiB of memory (its reader {error.why}): see who "
            "writes its log, then write a checkpoint, or the table anew.",
        ) from None
    if "value" in answer:
        return answer["value"]
    if "reason" in answer:
        raise NotEvaluableError(Reason(answer["reason"]), answer["refused"])
    raise (TransientError if answer["passing"] else TerminalError)(answer["refused"])


def _named_by_variables(module: str) -> Iterator[str]:
    """Yield the files that the child's variables name, like GOOGLE_APPLICATION_CREDENTIALS."""
    for name, value in _contained(module).environment().items():
        if name.upper() not in _NOT_FILES:
            yield from _named_by(value)


def _named_by(settings: Any) -> Iterator[str]:
    """Yield the places on this machine that text, or any value of a dictionary, names."""
    if isinstance(settings, dict):
        for value in settings.values():
            yield from _named_by(value)
    elif isinstance(settings, str) and settings.startswith(_SQLITE):
        database = settings.removeprefix(_SQLITE).partition("?")[0]
        yield from (os.path.abspath(database + end) for end in _BESIDE_SQLITE)  # noqa: PTH100
    elif isinstance(settings, str) and os.sep in settings:
        with suppress(TerminalError):  # it is no place of this machine, but may be a password
            place = local_path(os.path.expanduser(settings))  # noqa: PTH111  # never raises
            yield from () if place is None else (str(place),)


@functools.cache
def _contained(module: str) -> Contained:
    """Return the process that answers questions; each has a child of its own."""
    return Contained(
        f"{module}:answer",
        seconds=limits.TABLE_SECONDS,
        memory=limits.TABLE_MEMORY_BYTES,
        fork=True,
        environment=_VARIABLES[module],
    )

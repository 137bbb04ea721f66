"""Questions about a table's log or catalogue, answered by a contained child; where files may lie.

Writers of a table choose every byte of its log. A log of 77 kB may unpack to 9 GB, and a library
may obey a table's own properties. So a child process with bounds on time and memory opens the
table, and answers in JSON; this process opens none.
"""

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from privcore.exceptions import AuditError, TerminalError, TransientError
from workers.contained import Contained, ContainedError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.places import bucket_of, local_path, within

_CATALOG_LOGINS = {"token", "credential"}
"""Properties of a REST catalogue that the environment alone may give."""


def properties_of(catalog: str) -> dict[str, Any]:
    """Return what operators' settings of pyiceberg say of a catalogue.

    Raises:
        TerminalError: pyiceberg is not installed, or a file holds a catalogue's login.
    """
    if importlib.util.find_spec("pyiceberg") is None:
        raise TerminalError(
            "To read Iceberg tables, install privaudit with its extra: privaudit[iceberg]."
        )
    from pyiceberg.utils.config import Config  # noqa: PLC0415  # an extra

    found = dict(Config().get_catalog_config(catalog) or {})
    for name in _CATALOG_LOGINS & set(found):
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__{name.upper()}"
        # pyiceberg takes the environment's name in any case.
        if variable not in {given.upper() for given in os.environ}:
            raise TerminalError(
                f"A file .pyiceberg.yaml holds the {name} of the catalogue {catalog}: take it out, "
                f"and set {variable} in the environment."
            )
    return found


def warehouse_of(properties: Mapping[str, Any]) -> str | None:
    """Return the folder or address of a catalogue's tables; None where it is none, but a name."""
    given = properties.get("warehouse")
    return given if isinstance(given, str) and ("://" in given or given[:1] == "/") else None


def place_of(address: str, warehouse: str | None) -> tuple[str, str]:
    """Return the root below which a table's folder or file is read, and where it lies there.

    The catalogue and its tables' writers choose where a table lies. They may choose a bucket of an
    object store, whose host is its vendor's, or a place below the catalogue's warehouse. They may
    not choose a host, a port, a region, or a folder of this machine.

    Raises:
        NotEvaluableError: the address is none of these.
    """
    allowed = [place for place in (warehouse, bucket_of(address)) if place is not None]
    found = within(address, allowed)
    if found is None:
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"The Iceberg table has files at {address[:200]!r}, which is no bucket of an object "
            "store and not below the catalogue's warehouse: set the catalogue's warehouse in "
            "pyiceberg's settings if that place is yours.",
        )
    return found


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
    contained = _contained(module)
    named = [
        value for name, value in contained.environment().items() if name.upper() not in _NOT_FILES
    ]
    files = (place for value in (*named, places) for place in _named_by(value))
    readable = sorted({*files, *map(os.path.expanduser, _LOGINS)})
    try:
        answer = contained(readable=readable, question=question, **about)
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


def _named_by(settings: Any) -> Iterator[str]:
    """Yield the places on this machine that text, or any value of a dictionary, names.

    Variables name some, too, like GOOGLE_APPLICATION_CREDENTIALS.
    """
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

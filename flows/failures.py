"""Descriptions of failures, in one sentence that a person on call can act on."""

import errno
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

from privcore.exceptions import AuditError, TerminalError
from workers.lake import limits

_FULL = ("no space left on device", "database or disk is full", "disk quota exceeded")
_FULL_BYTES = 1 << 20
_PATH = re.compile(r"(/[^\s'\":]+)")


class WrongUsageError(TerminalError):
    """A command was asked for something that there is not; nothing was begun or stored."""


def in_one_sentence(error: BaseException) -> str:
    """Return what went wrong; a full disk by its path, whichever library met it.

    Sentences quote what an input said, which may be megabytes.
    """
    full = _full_disk(error)
    if full is not None:
        return full
    said = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        extra = "studies" if error.name in {"altair", "vl_convert"} else "service"
        return f"This needs {error.name}, which is not installed: install privaudit[{extra}]."
    if not isinstance(error, AuditError):
        what = " ".join(said[: limits.REASON_CHARACTERS].split()) or "no message"
        said = f"{type(error).__name__}: {what}"
    cut = len(said) > limits.REASON_CHARACTERS
    return f"{said[: limits.REASON_CHARACTERS]}..." if cut else said


def without_data(error: BaseException) -> str:
    """Return what went wrong, for pages of Prefect: a library's own words may quote the data.

    Those of the operating system quote paths.
    """
    if isinstance(error, (AuditError, OSError)):
        return in_one_sentence(error)
    ended = (
        f"The run ended with {type(error).__name__}: its message is on the run's standard error."
    )
    return _full_disk(error) or ended


def _full_disk(error: BaseException) -> str | None:
    """Return the sentence of a full disk, if that is what went wrong."""
    where = _full_place(error)
    if not is_full_disk(error) and (where is None or isinstance(error, AuditError)):
        return None
    place = "the disk" if where is None else where
    return f"There is no space left on {place}: free some, then run the same command again."


def is_full_disk(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, says that a disk is full."""
    return any(
        getattr(each, "errno", None) in {errno.ENOSPC, errno.EDQUOT}
        or any(word in str(each).lower() for word in _FULL)
        for each in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [each.__cause__, each.__context__]


def _full_place(error: BaseException) -> str | None:
    """Return the full path that the errors name, else a full place that this process writes to."""
    for each in _causes(error):
        if isinstance(each, OSError) and each.errno == errno.ENOSPC and each.filename:
            return str(each.filename)
    named = (path for each in _causes(error) for path in _PATH.findall(str(each)))
    home = os.environ.get("PREFECT_HOME", str(pathlib.Path("~/.prefect").expanduser()))
    usual = (tempfile.gettempdir(), home, str(pathlib.Path.cwd()), "/dev/shm")  # noqa: S108
    return next((path for path in (*named, *usual) if _is_full(path)), None)


def _is_full(path: str) -> bool:
    place = pathlib.Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return False
    return usage.total > 0 and usage.free < _FULL_BYTES  # /proc has no space at all

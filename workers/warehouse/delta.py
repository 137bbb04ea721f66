"""One Delta table, wherever it lies, for the three libraries that read it.

delta-rs percent-encodes the paths of this machine; polars and DuckDB take them as they are. And
what a damaged file makes them raise, or panic with, is one sentence here.
"""

import contextlib
import json
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from privcore.exceptions import TerminalError, TransientError
from workers.lake.places import check_uri, local_path
from workers.patience import Patience

Answer = TypeVar("Answer")

_NEVER = re.compile(r"[\[\]^|\\\x00-\x1f\x7f\ud800-\udfff]|%[0-9A-Fa-f]{2}")
"""Text that deltalake 1.6 cannot have in a path (nor bytes that are no UTF-8): it panics, or writes
to one place and reads from another."""
_AWAY = re.compile(
    r"timed? ?out|connect|SlowDown|Slow Down|throttl|\b(50[0-9]|429) (?!ms)|retries", re.IGNORECASE
)
"""Words of object stores' errors that may go away."""
_TORN = re.compile(r"response body|body from connection|end of file before message length")
"""Words about an answer that ended early: the libraries try all else again themselves."""
_ARROW = re.compile(r"\x1b\[[0-9;]*m|↳")
_URI = re.compile(r"\S+://\S+")
_REWRITER = "privaudit/rewriting"
"""Name in a table's log of whoever takes files out of it."""
_PATIENCE = Patience(attempts=10, first=0.05, longest=0.5)
_COMMITS = Patience(attempts=40, first=0.05, longest=1.0)


def table_path(place: str, table: str) -> str:
    """Return where a table of the warehouse at `place` lies, as delta-rs takes it.

    Raises:
        TerminalError: the place could hold a credential, or Delta Lake cannot keep tables there.
    """
    local = local_path(place)
    if local is None:
        if "?" in place:
            raise TerminalError(
                "A warehouse's URI takes no query: give region and endpoint in the environment "
                "(AWS_REGION, AWS_ENDPOINT_URL)."
            )
        return f"{check_uri(place).rstrip('/')}/{table}"
    found = _NEVER.search(os.path.realpath(local))  # delta-rs follows links first
    if found is not None:
        raise TerminalError(
            f"Delta Lake cannot keep tables below {str(local)!a}: take {found[0]!a} out of the "
            "path."
        )
    return str(local / table)


def open_table(path: str) -> deltalake.DeltaTable | None:
    """Return the table at `path` (from `table_path`), None where there is none."""
    kind = _LocalTable if local_path(path) is not None else deltalake.DeltaTable

    def opened() -> deltalake.DeltaTable | None:
        try:
            table = kind(path)
        except TableNotFoundError:
            return None
        # deltalake opens these in silence, and DuckDB would read the rows that they took out.
        if table.protocol().min_reader_version > 1 or table.metadata().partition_columns:
            raise TerminalError(
                f"The warehouse's table at {path} has deletion vectors, partitions or other "
                "features that privaudit never writes there: another program changed it. Restore "
                "it from a backup."
            )
        return table

    return whole(path, opened)


class _LocalTable(deltalake.DeltaTable):
    """A table of this machine whose files are named as they are there."""

    def file_uris(self, *arguments: Any, **options: Any) -> list[str]:
        """Return the paths of the data files."""
        return [urllib.parse.unquote(path) for path in super().file_uris(*arguments, **options)]

    @property
    def table_uri(self) -> str:
        """Nothing that files lie below, so that polars asks for their sizes.

        It would believe the log otherwise, and panic where a file was cut off.
        """
        return "unknown"


def retry_commits(place: str, table: str, change: Callable[[], Answer]) -> Answer:
    """Return what `change` of a table below `place` returns, again while other writers win.

    Raises:
        TransientError: they kept winning, or storage kept failing.
    """
    try:
        return _COMMITS.retry(
            lambda: whole(place, change), lambda error: isinstance(error, CommitFailedError)
        )
    except CommitFailedError:
        raise TransientError(
            f"Other writers kept winning the table {table} for {_COMMITS.attempts} attempts: try "
            "again."
        ) from None


def rewriting() -> deltalake.CommitProperties:
    """Return what every commit carries that takes files out of a table.

    Of two such commits at once the log then refuses the later one.
    """
    mine = deltalake.Transaction(_REWRITER, 1, int(time.time() * 1000))
    return deltalake.CommitProperties(app_transactions=[mine])


def rewrite(table: deltalake.DeltaTable, properties: deltalake.CommitProperties) -> None:
    """Write all rows of a table anew into large files, batch by batch.

    `optimize.compact` of deltalake 1.6 does the same for small files alone, but its commit takes no
    notice of another one that took the same files: two at once leave each row there twice.

    Raises:
        CommitFailedError: another writer took files out, or added some.
    """
    rows = table.to_pyarrow_dataset().scanner().to_reader()
    deltalake.write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


class TornAnswerError(TransientError):
    """An object store's answer ended before it was whole."""


def whole(place: str, action: Callable[[], Answer]) -> Answer:
    """Return what `action` returns, which is harmless to repeat: again after a torn answer."""

    def read() -> Answer:
        with readable(place):
            return action()

    return _PATIENCE.retry(read, lambda error: isinstance(error, TornAnswerError))


@contextlib.contextmanager
def readable(place: str) -> Iterator[None]:
    """Turn what libraries raise at a damaged file or a failing storage into one sentence.

    `CommitFailedError` passes: another writer won, and the caller tries again.
    """
    try:
        yield
    except CommitFailedError:
        raise
    except (
        DeltaError,
        pl.exceptions.PolarsError,
        OSError,
        pa.ArrowInvalid,
        json.JSONDecodeError,
    ) as error:
        raise _sentence(place, error) from None
    except BaseException as error:
        # Rust's panics are no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise _sentence(place, error) from None


def _sentence(place: str, error: BaseException) -> TerminalError | TransientError:
    # Effect and cause stand line by line, with arrows in colours; then a trace.
    lines = _ARROW.sub("", str(error).partition("   0:")[0].partition("\n\n")[0]).splitlines()
    told = [line.strip() for line in lines if line.strip()]
    message = ": ".join([*told[:1], *told[1:][-1:]])[:300] or type(error).__name__
    text = _URI.sub("", " ".join(told))
    if "No space left" in text:
        return TerminalError(
            f"There is no space left on {place}: free some, then run the same command again."
        )
    if local_path(place) is None and (_TORN.search(text) or _AWAY.search(text)):
        kind = TornAnswerError if _TORN.search(text) else TransientError
        return kind(f"Storage kept failing at {place} ({message}): try again later.")
    return TerminalError(
        f"The warehouse at {place} cannot be read or written ({message}): where a file is damaged, "
        "cut off or gone, restore it from a backup or an earlier version of the bucket."
    )

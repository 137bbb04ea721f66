"""One Delta table, wherever it lies, for the three libraries that read it.

delta-rs percent-encodes the paths of this machine; polars and DuckDB take them as they are. And
what a damaged file makes them raise, or panic with, is one sentence here.
"""

import contextlib
import datetime as dt
import functools
import json
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow import fs

from privcore.exceptions import TerminalError, TransientError
from workers.lake.layout import open_filesystem
from workers.lake.places import check_uri, local_path
from workers.patience import Patience
from workers.warehouse.log_size import changed, check_log, data_file_size

Answer = TypeVar("Answer")

_COMMIT = re.compile(r"([0-9]{20})\.json")
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
_NUMBERS = {"byte", "short", "integer", "long", "float", "double"}
_KINDS = {
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int64(): "number",
    pa.float64(): "number",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
"""Words of Delta Lake for what a table's columns hold."""
_NAMED = 100
"""Characters that are quoted of a file's name."""
_AT_ONCE, _READERS = 1_000, 16
_COUNTED: set[str] = set()
"""Data files whose rows were counted; none changes under its name."""
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
        check_plain(path)
        check_log(path)
        try:
            table = kind(path)
        except TableNotFoundError:
            return None
        check_ours(table, path)
        return table

    return whole(path, opened)


def check_plain(path: str) -> None:
    """Refuse a table of this machine with links and pipes among its files.

    A link leads to rows that are none of the table's, and a pipe is waited for without end.

    Raises:
        TerminalError: naming the first.
    """
    folder = local_path(path)
    for part in () if folder is None else (folder, folder / "_delta_log"):
        with contextlib.suppress(FileNotFoundError), os.scandir(part) as entries:
            for entry in entries:
                if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
                    raise changed(path, f"{entry.name[:_NAMED]!a} is a link or no plain file")


def check_ours(table: deltalake.DeltaTable, path: str) -> None:
    """Refuse a table of which readers would see different rows, or rows of other places.

    The libraries differ in deletion vectors, columns by other names and values of partitions, and
    all follow a path that leads out of the table. On this machine, a folder below the table's may
    hold links and pipes, which `check_plain` does not look for there.

    Raises:
        TerminalError: naming what it has, in the version that is open.
    """
    if table.protocol().min_reader_version > 1 or table.metadata().partition_columns:
        raise changed(path, "it has deletion vectors, partitions or other reader features")
    # Of deltalake's own class: `_LocalTable` says nothing of where it lies.
    folder = deltalake.DeltaTable.table_uri.__get__(table).rstrip("/")
    if local_path(path) is not None:
        folder = urllib.parse.unquote(folder.removeprefix("file://"))
    files = data_files(table, path)
    if len(set(files)) < len(files):
        raise changed(path, "its log names a file twice")
    for file in files:
        if file.rpartition("/")[0] != folder:
            raise changed(path, f"its log names {file[:_NAMED]!a}, which lies elsewhere")


def check_columns(table: deltalake.DeltaTable, columns: pa.Schema, path: str) -> None:
    """Refuse a table whose columns hold other kinds of values than are written to them.

    Raises:
        TerminalError: naming the first.
    """
    stored = {field.name: field.type for field in table.schema().fields}
    for column in columns:
        found = stored.get(column.name)
        if found is not None and _kind(found) != _KINDS.get(column.type, "array"):
            raise changed(path, f"its column {column.name} holds {str(found)[:_NAMED]}")


def check_rows(table: deltalake.DeltaTable, path: str, *, bytes_a_row: float) -> None:
    """Refuse a data file of more rows than its bytes can hold: some kB would take all memory.

    A process asks for each file's rows and size once.

    Raises:
        TerminalError: naming the first.
    """
    new = [file for file in data_files(table, path) if file not in _COUNTED]
    for start in range(0, len(new), _AT_ONCE):  # a first one that is gone ends it
        some = new[start : start + _AT_ONCE]
        places = [file.rpartition("/")[2] for file in some]
        sizes = [info.size or 0 for info in open_filesystem(path).get_file_info(places)]
        asked = functools.partial(data_file_size, open_filesystem(path), path)
        with ThreadPoolExecutor(_READERS) as pool:
            counted = list(pool.map(asked, places, sizes))
        for place, size, (rows, _) in zip(places, sizes, counted, strict=True):
            if rows * bytes_a_row > size:
                raise changed(path, f"{place[:_NAMED]!a} has {rows:,} rows in {size:,} bytes")
        _COUNTED.update(some)


def _kind(found: Any) -> str:
    name = str(getattr(found, "type", "array"))
    return "number" if name in _NUMBERS else name


def data_files(table: deltalake.DeltaTable, path: str) -> list[str]:
    """Return where the data files of the table at `path` lie, as polars takes them."""
    files = deltalake.DeltaTable.file_uris(table)
    return files if local_path(path) is None else [urllib.parse.unquote(file) for file in files]


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


def rewriting(*also: deltalake.Transaction) -> deltalake.CommitProperties:
    """Return what every commit carries that takes files out of a table.

    Of two such commits at once the log then refuses the later one.
    """
    mine = deltalake.Transaction(_REWRITER, 1, int(time.time() * 1000))
    return deltalake.CommitProperties(app_transactions=[mine, *also])


def rewrite(table: deltalake.DeltaTable, properties: deltalake.CommitProperties) -> None:
    """Write all rows of a table anew into large files, batch by batch.

    `optimize.compact` of deltalake 1.6 does the same for small files alone, but its commit takes no
    notice of another one that took the same files: two at once leave each row there twice.

    Raises:
        CommitFailedError: another writer took files out, or added some.
    """
    rows = table.to_pyarrow_dataset().scanner().to_reader()
    deltalake.write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


def commit_times(place: str, table: str) -> list[tuple[int, int]]:
    """Return (version, milliseconds since 1970) of every commit that a table's log still has.

    By what each commit says of itself: a copied warehouse has new times on its files. In order.
    `DeltaTable.history` says it too, but finds nothing below a path with # or ?.
    """

    def read() -> list[tuple[int, int]]:
        files = open_filesystem(place)
        log = fs.FileSelector(f"{table}/_delta_log", allow_not_found=True)
        commits = []
        for info in files.get_file_info(log):
            name = _COMMIT.fullmatch(info.base_name)
            if name is None or info.type != fs.FileType.File:  # a pipe would be waited for
                continue
            with files.open_input_stream(info.path) as stream:
                commits += [(int(name[1]), time) for time in _times_in(stream.read(), info.path)]
        return sorted(commits)

    return whole(place, read)


def _times_in(commit: bytes, path: str) -> list[int]:
    """Return the times that a commit says of itself: one, or none."""
    try:
        actions = [json.loads(line) for line in commit.splitlines()]
        times = [int(one["commitInfo"]["timestamp"]) for one in actions if "commitInfo" in one]
        for moment in times:
            dt.datetime.fromtimestamp(moment / 1000, dt.UTC)
        return times  # noqa: TRY300
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise OSError(f"{path} holds what no commit does") from None


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

"""Size of a Delta table's log, before deltalake reads it in the command's own process.

deltalake takes 7 kB of memory for each action of a log, so that a checkpoint of 100 kB that names
300,000 files took 1.4 GB of each command. What a checkpoint holds is found here by its footer and
the headers of its pages, and that of commits by their size.

Measured on 2026-11-27: 43 bytes of a checkpoint for each entry that privaudit wrote (ids of
audits, which the log keeps for a day, and names of files, none of which packs to less than 16), and
365,000 such actions after a year of a thousand models was audited within a day: 2.7 GB.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl
from pyarrow import fs

from privcore.exceptions import TerminalError
from workers.labels.page_headers import read_struct
from workers.lake.layout import open_filesystem
from workers.memory import memory_left

_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_COMMITS = re.compile(r"([0-9]{20})\..*json|([0-9]{20})\.crc", re.DOTALL)
"""Commits, those that were put together, and checksums."""
_SIDECARS = "_sidecars"
_LAST = "_last_checkpoint"
_LAST_BYTES = 1 << 16
_LARGEST = 1 << 63
_FEWEST_BYTES, _MOST_TIMES = 8, 100
"""Bytes of a checkpoint for each of its entries, and its own size of what it unpacks to: of honest
ones, 43 and 1."""
_BYTES_OF_ACTION, _BYTES_OF_BYTE = 8_000, 4
"""Memory that an entry takes, and a byte of what is unpacked, or of a commit."""
_LINES_UNREAD = 8 << 20
"""Commits of fewer bytes are not read here to count their lines."""
_FOOTER, _TAIL = 4 << 20, 1 << 16
_MAGIC = b"PAR1"
_DIFFERENCES = 7
"""Encoding of text by what a value shares with the one before it: it may unpack to any size."""
_SIDECAR = "sidecar"
_MEASURED: dict[tuple[Any, ...], "LogSize"] = {}
"""Checkpoints that this process has measured: name, size and time of each, and what it holds."""


class LogSize(NamedTuple):
    """What opening a log unpacks: entries, and bytes."""

    actions: int
    bytes: int

    def more(self, actions: int, size: int) -> "LogSize":
        """Return this and more together."""
        return LogSize(self.actions + actions, self.bytes + size)

    def check(self, path: str) -> None:
        """Raise `TerminalError` where the table at `path` takes more memory than is left."""
        needed = self.actions * _BYTES_OF_ACTION + self.bytes * _BYTES_OF_BYTE
        left = memory_left()
        if left is not None and needed > left:
            raise TerminalError(
                f"The log of the table at {path} has {self.actions:,} entries and {self.bytes:,} "
                f"bytes, which take some {needed / 1e9:.1f} GB of memory to open, and "
                f"{left / 1e9:.1f} GB are left: run the same command where more are, and see who "
                "wrote them."
            )


def changed(path: str, how: str) -> TerminalError:
    """Return the refusal of a table that another program has written."""
    return TerminalError(
        f"The table at {path} is not as privaudit writes it ({how}): another program changed it. "
        "Restore it from a backup, and see who may write there."
    )


def check_log(path: str, version: int | None = None) -> None:
    """Refuse a log that takes more memory to open than there is, or is not as deltalake writes it.

    Args:
        path: the table's, from `table_path`.
        version: which is to be opened; the newest one if it is None.

    Raises:
        TerminalError: with what it holds.
    """
    files = open_filesystem(path)
    listed = files.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
    newest, commits = None, []
    for info in listed:
        name = info.base_name
        found = _CHECKPOINT.fullmatch(name)
        if found is not None and info.size and int(found[1]) < _LARGEST:
            if (version is None or int(found[1]) <= version) and (
                newest is None or name > newest.base_name
            ):
                newest = info
        elif name == _SIDECARS or (".checkpoint." in name and not (found and not info.size)):
            raise changed(path, f"its log has {name[:100]!a}, a checkpoint of another kind")
        elif name == _LAST and (info.size or 0) > _LAST_BYTES:
            raise changed(path, f"{_LAST} has {info.size:,} bytes")
        elif _COMMITS.fullmatch(name):
            commits.append(info)
    size = LogSize(0, 0) if newest is None else _of_checkpoint(files, newest, path)
    after = "" if newest is None else newest.base_name[:20]
    _check_memory(files, size, [one for one in commits if one.base_name[:20] >= after], path)


def _check_memory(
    files: fs.FileSystem, size: LogSize, commits: list[fs.FileInfo], path: str
) -> None:
    in_commits = sum(info.size or 0 for info in commits)
    size = size.more(0, in_commits)
    size.check(path)
    if in_commits > _LINES_UNREAD:
        size.more(sum(_lines(files, info.path) for info in commits), 0).check(path)


def _lines(files: fs.FileSystem, path: str) -> int:
    with files.open_input_stream(path) as stream:
        blocks: Iterator[bytes] = iter(lambda: stream.read(1 << 20), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)


def _of_checkpoint(files: fs.FileSystem, info: fs.FileInfo, path: str) -> LogSize:
    """Return what a checkpoint holds; it is measured once by a process."""
    known = (path, info.base_name, info.size, info.mtime_ns)
    if known not in _MEASURED:
        LogSize(0, info.size).check(path)
        with files.open_input_stream(info.path) as stream:
            content = stream.read(info.size)
        name = info.base_name
        try:
            size = checkpoint_size(content)
        except ValueError as error:
            raise changed(path, f"{name} is no checkpoint: {error!s:.100}") from None
        for what, count, most in (
            ("entries", size.actions, len(content) // _FEWEST_BYTES),
            ("bytes in its pages", size.bytes, len(content) * _MOST_TIMES),
        ):
            if count > most:
                raise changed(path, f"{name} has {count:,} {what}, and is {len(content):,} bytes")
        rows = pl.read_parquet(content)  # polars keeps text that is repeated once
        if _SIDECAR in rows.columns and (named := rows[_SIDECAR].struct.field("path").count()):
            raise changed(path, f"{name} names {named:,} files of further entries")
        try:
            text = sum(map(_text, rows))
        except TypeError as error:
            raise changed(path, f"{name} is no checkpoint: {error!s:.100}") from None
        if text > len(content) * _MOST_TIMES:
            raise changed(path, f"{name} has {text:,} bytes of text, and is {len(content):,} bytes")
        _MEASURED[known] = size.more(0, text)
    return _MEASURED[known]


def _text(values: pl.Series) -> int:
    """Return the bytes of all text in a column.

    Raises:
        TypeError: it is of a kind that is not counted, such as categories.
    """
    kind = values.dtype
    if isinstance(kind, pl.Struct):
        return sum(_text(values.struct.field(field.name)) for field in kind.fields)
    if isinstance(kind, pl.Map):
        return _text(values.map.entries())
    if isinstance(kind, pl.List):
        return _text(values.explode())
    if kind == pl.String:
        return int(values.str.len_bytes().cast(pl.Int64).sum())
    if kind in {pl.Null, pl.Boolean} or kind.is_numeric() or kind.is_temporal():
        return 0
    raise TypeError(f"it has columns of the kind {kind}")


def checkpoint_size(content: bytes) -> LogSize:
    """Return what a checkpoint holds by its pages.

    Raises:
        ValueError: it is no Parquet, or stores text so that it may unpack to any size.
    """
    try:
        return _size(content)
    except (LookupError, TypeError, AttributeError):
        raise ValueError("its footer or pages are not Parquet's") from None


def data_file_size(files: fs.FileSystem, path: str, place: str, size: int) -> LogSize:
    """Return how many rows a data file has, and to how many bytes its footer says they unpack.

    Raises:
        TerminalError: its counts of rows differ, so that a reader takes more than another counts,
            or it unpacks to more than files that are written here ever do.
    """
    with files.open_input_file(place) as stream:
        tail = stream.read_at(min(size, _TAIL), max(0, size - _TAIL))
        if len(tail) >= 8 and (length := int.from_bytes(tail[-8:-4], "little") + 8) > len(tail):
            tail = stream.read_at(min(size, length, _FOOTER), max(0, size - min(length, _FOOTER)))
    try:
        about = _footer(memoryview(tail))
        rows = [group[3] for group in about[4]]
        unpacked = sum(column[3][6] for group in about[4] for column in group[1])
        known = sum(rows) == about[3]
    except (ValueError, LookupError, TypeError, AttributeError):
        known = False
    if not known:
        raise changed(path, f"the footer of {place[:100]!a} is none, or its counts of rows differ")
    if unpacked > size * _MOST_TIMES:
        raise changed(path, f"{place[:100]!a} has {unpacked:,} bytes in {size:,}")
    return LogSize(sum(rows), unpacked)


def _footer(content: memoryview) -> dict[int, Any]:
    """Return the footer at the end of a file's last bytes."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    if content[-4:] != _MAGIC or start < 0 or length > _FOOTER:
        raise ValueError("it has no footer")
    return read_struct(content, start)[0]


def _size(content: bytes) -> LogSize:
    view = memoryview(content)
    about = _footer(view)
    actions = size = 0
    for group in about[4]:
        held = [group[3]]
        for column in group[1]:
            unpacked, values = _column(view, column[3])
            size += unpacked
            held.append(values)
        actions += max(held)
    return LogSize(max(actions, about[3]), size)


def _column(content: memoryview, about: dict[int, Any]) -> tuple[int, int]:
    """Return to how many bytes the pages of a column unpack, and how many values these hold."""
    place = about.get(11) or about[9]
    end = place + about[7]
    if not 0 <= place <= end <= len(content):
        raise ValueError("a column lies outside of it")
    size = held = 0
    while place < end:
        header, place = read_struct(content, place)
        page, packed = header[2], header[3]
        if min(page, packed) < 0 or place + packed > end:
            raise ValueError("a page lies outside of its column")
        size, place = size + page, place + packed
        for inner, encoding in ((5, 2), (8, 4)):
            if inner in header:
                count, how = header[inner][1], header[inner][encoding]
                if count < 0 or how == _DIFFERENCES:
                    raise ValueError("it has fewer than no values, or text by differences")
                held += count
    return size, max(held, about[5])

"""Layout of a lake: the places of checkpoints and label partitions, and the days that exist.

    <lake>/models/<model>/day=YYYY-MM-DD/manifest.json, model.cbm, _SUCCESS
    <lake>/labels/<dataset>/day=YYYY-MM-DD/*.parquet, _SUCCESS

A day without `_SUCCESS`, which is written last, does not exist yet.

Storage may fail for a moment. Reading bytes is kept apart from making sense of them: an error of
the first kind may go away and is tried again, an error of the second (a damaged file) never does.
"""

import datetime as dt
import errno
import functools
import logging
import os
import pathlib
import re
import stat
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.places import check_uri, local_path
from workers.patience import Patience
from workers.plain_files import open_plain

Result = TypeVar("Result")

PATIENCE = Patience(attempts=7, first=0.05, longest=5.0, spread=1.0)
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_FINAL_ERRNO = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOSPC, errno.EROFS}
_REFUSED = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE", "HTTP status 403")
_THROTTLED = ("SLOW_DOWN", "SlowDown", "THROTTL", "Throttl", "HTTP status 429", "HTTP status 503")
_log = logging.getLogger(__name__)


def patiently(action: Callable[[], Result], what: str) -> Result:
    """Return what `action` returns, trying again where storage may only be away.

    A storage that says it is throttling is given four times as long.

    Args:
        action: reads or writes; harmless to repeat.
        what: the path, for the error; never a URI, which could hold a secret.

    Raises:
        TransientError: it failed as often as it is tried.
        OSError: trying again cannot help: there is no such file, or access is refused.
    """

    def again(error: Exception) -> float:
        if not isinstance(error, OSError) or not may_go_away(error):
            return 0.0
        _log.info("Storage failed at %s (%s): trying again.", what, type(error).__name__)
        return 4.0 if any(word in str(error) for word in _THROTTLED) else 1.0

    try:
        return PATIENCE.retry(action, again)
    except OSError as error:
        if not may_go_away(error):
            raise
        kind = type(error).__name__
    raise TransientError(
        f"Storage failed {PATIENCE.attempts} times at {what} ({kind}): try again later."
    )


def may_go_away(error: OSError) -> bool:
    """Return whether the same call may succeed later.

    Not where a file is missing, access refused, the disk full, or the path none.
    """
    final = isinstance(error, _FINAL) or error.errno in _FINAL_ERRNO
    return not final and not any(word in str(error) for word in _REFUSED)


SUCCESS = "_SUCCESS"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def open_filesystem(uri: str) -> fs.FileSystem:
    """Return a filesystem rooted at `uri`: a local path, or file://, s3://, gs:// or abfs://.

    Credentials come from the environment's usual chain.
    """
    local = local_path(uri)
    if local is None:
        return _remote(check_uri(uri))
    return fs.SubTreeFileSystem(str(local), fs.LocalFileSystem())


@functools.lru_cache(maxsize=16)
def _remote(uri: str) -> fs.FileSystem:
    """Connect once: an object store's client keeps its connections."""
    filesystem, path = fs.FileSystem.from_uri(uri)
    return fs.SubTreeFileSystem(path, filesystem)


def read_named(uri: str, *, at_most: int) -> bytes:
    """Return a file that a person names, at a path or URI; links are followed.

    Raises:
        OSError: it cannot be read, is no plain file, or has more than `at_most` bytes.
    """
    local = local_path(uri)
    if local is not None:
        with open_plain(local) as file:
            content = file.read(at_most + 1)
    else:
        folder, _, name = uri.rpartition("/")
        files = open_filesystem(folder)
        content = patiently(lambda: files.open_input_file(name).read(at_most + 1), name)
    if len(content) > at_most:
        raise OSError(errno.EFBIG, f"it has more than the {at_most:,} bytes that are read")
    return content


PARQUET = (".parquet", ".parq", ".pq")
"""Endings of Parquet files, in small letters."""


class LabelFile(NamedTuple):
    """A label file as the lake lists it."""

    name: str
    size: int
    changed_ns: int


class DayFolder(NamedTuple):
    """A folder where a day's should be, and the day that it names; None where it names none."""

    day: dt.date | None
    name: str


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake at a path or URI; cheap to build, so that a worker opens its own."""

    uri: str

    @property
    def files(self) -> fs.FileSystem:
        """The filesystem below the lake's root."""
        return open_filesystem(self.uri)

    def patiently(self, action: Callable[[], Result], path: str) -> Result:
        """Return what `action` reads of `path`, trying again where storage may only be away.

        Raises:
            FileNotFoundError: there is no such file.
            NotEvaluableError: `path_unreadable`; trying again cannot help.
        """
        try:
            return patiently(action, path)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            why = error.strerror if isinstance(error, OSError) and error.errno else "no such path"
            raise NotEvaluableError(
                Reason.PATH_UNREADABLE,
                f"{path} cannot be read ({why}): see who may read it, and what it is.",
            ) from None

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at random.

        Raises:
            FileNotFoundError: there is none.
            NotEvaluableError: `path_outside`; in a lake on disk, it is a link that leads out of
                the lake, or no plain file (a pipe would never end).
        """
        files = self.files
        if isinstance(files.base_fs, fs.LocalFileSystem):
            return open_below(files.base_path, path)
        return files.open_input_file(path)

    def read(self, path: str, *, at_most: int = limits.MANIFEST_BYTES) -> bytes:
        """Return a whole file; patient with storage, as are all methods here.

        Raises:
            FileNotFoundError: there is none.
            NotEvaluableError: `path_outside` as for `open`; `too_large`, above `at_most` bytes.
        """

        def action() -> bytes:
            with self.open(path) as file:
                content: bytes = file.read(at_most + 1)
            return content

        content = self.patiently(action, path)
        if len(content) > at_most:
            raise NotEvaluableError(
                Reason.TOO_LARGE, f"{path} is larger than the {at_most:,} bytes that are read."
            )
        return content

    def create(self, path: str) -> pa.NativeFile:
        """Open a file for writing, in an existing folder."""
        return self.files.open_output_stream(path, compression=None)

    def write(self, path: str, content: bytes) -> None:
        """Write a whole file, making its folder."""

        def action() -> None:
            files = self.files
            if folder := path.rpartition("/")[0]:
                files.create_dir(folder, recursive=True)
            with self.create(path) as stream:
                stream.write(content)

        patiently(action, path)

    def has(self, path: str) -> bool:
        """Return whether there is a file."""
        info = self.patiently(lambda: self.files.get_file_info(path), path)
        return bool(info.type == fs.FileType.File)

    def exists(self, folder: str) -> bool:
        """Return whether a day's folder is complete."""
        return self.has(f"{folder}/{SUCCESS}")

    def complete(self, folder: str) -> None:
        """Mark a day's folder as complete."""
        self.write(f"{folder}/{SUCCESS}", b"")

    def label_files(self, dataset: str, day: dt.date) -> list[LabelFile]:
        """Return a day's Parquet files, sorted by name; of one in a subfolder, with the folder.

        What lies in a folder whose name begins with _ or . is a writer's work in progress.

        Raises:
            NotEvaluableError: as `files_below`.
        """
        return list(filter(is_label_file, self.files_below(labels_folder(dataset, day))))

    def files_below(self, folder: str) -> list[LabelFile]:
        """Return all files below a folder, sorted by name; none where there is no such folder.

        Raises:
            NotEvaluableError: `path_outside`; on disk, a link leads to a folder, so that rows could
                be read several times. Or the folder cannot be read.
            TransientError: storage kept failing.
        """
        files = self.files
        if isinstance(files.base_fs, fs.LocalFileSystem):
            top = os.path.join(files.base_path, folder)  # noqa: PTH118  # Path would cost a third
            root, found = map(os.path.realpath, (files.base_path, top))
            if folder and found != os.path.join(root, folder):  # noqa: PTH118
                out = "" if found.startswith(f"{root}/") else " out of the lake"
                raise _strange_link(folder, f"is a link{out}, or in one")
            return self.patiently(lambda: _files_on_disk(top), folder or self.uri)
        selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        start = len(folder) + 1 if folder else 0
        return sorted(
            _label_file(entry)._replace(name=entry.path[start:])
            for entry in self.patiently(lambda: files.get_file_info(selector), folder or self.uri)
            if entry.type == fs.FileType.File
        )

    def label_file(self, path: str) -> LabelFile:
        """Return a file as it is listed now, under the name that is given."""
        return self.patiently(lambda: _label_file(self.files.get_file_info(path)), path)

    def first_day(self, model: str) -> dt.date | None:
        """Return the first day that a model has a folder of, None where it has none."""
        days = (folder.day for folder in self.day_folders(f"models/{model}"))
        return min((day for day in days if day is not None), default=None)

    def day_folders(self, parent: str) -> list[DayFolder]:
        """Return a folder's subfolders, the newest day last; first those that name no day."""
        selector = fs.FileSelector(parent, allow_not_found=True)
        entries = self.patiently(lambda: self.files.get_file_info(selector), parent)
        folders = [
            DayFolder(_day(entry.base_name), entry.base_name)
            for entry in entries
            if entry.type == fs.FileType.Directory
        ]
        return sorted(folders, key=lambda one: (one.day or dt.date.min, one.name))

    def models(self) -> Iterator[str]:
        """Yield the names of the models that have a folder, sorted."""
        selector = fs.FileSelector("models", allow_not_found=True)
        for entry in sorted(self.files.get_file_info(selector), key=lambda info: info.path):
            if entry.type == fs.FileType.Directory and _NAME.fullmatch(entry.base_name):
                yield entry.base_name


def _day(folder: str) -> dt.date | None:
    """Return the day of a folder that is called as the lake wants it: day=YYYY-MM-DD."""
    try:
        day = dt.date.fromisoformat(folder.removeprefix("day="))
    except ValueError:
        return None
    return day if folder == folder_of(day) else None


def is_label_file(file: LabelFile) -> bool:
    """Return whether a file of a day's folder in the lake holds rows that are read."""
    folders = file.name.split("/")[:-1]
    return file.name.lower().endswith(PARQUET) and not any(
        part.startswith(("_", ".")) for part in folders
    )


def _files_on_disk(top: str) -> list[LabelFile]:
    """Return the files below a folder of this machine; Arrow would follow links, round and round.

    A link in a circle gives a file 40 names.
    """
    found: list[LabelFile] = []
    for folder, folders, files in os.walk(top, onerror=_unless_missing):
        for name in folders:
            if os.path.islink(path := os.path.join(folder, name)):  # noqa: PTH114, PTH118
                raise _strange_link(os.path.relpath(path, top), "leads to a folder")
        for name in files:
            path = os.path.join(folder, name)  # noqa: PTH118
            try:
                status = os.stat(path)  # noqa: PTH116
            except OSError as error:  # a link that leads nowhere, or a file that just went
                if error.errno not in {errno.ENOENT, errno.ELOOP}:
                    raise
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            within = os.path.relpath(path, top)
            found.append(LabelFile(within, status.st_size, status.st_mtime_ns))
    return sorted(found)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _strange_link(name: str, why: str) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.PATH_OUTSIDE,
        f"{name!r} {why}, so that rows could be read several times: put the files "
        "themselves there, each once.",
    )


def _label_file(entry: fs.FileInfo) -> LabelFile:
    return LabelFile(entry.path, int(entry.size or 0), int(entry.mtime_ns or 0))


def folder_of(day: dt.date) -> str:
    """Return what a day's folder is called."""
    return f"day={day.isoformat()}"


def checkpoint_folder(model: str, day: dt.date) -> str:
    """Return a checkpoint's folder; a name that could walk out of the lake is refused."""
    return f"models/{check_name('model', model)}/{folder_of(day)}"


def labels_folder(dataset: str, day: dt.date) -> str:
    """Return a label partition's folder; a name that could walk out of the lake is refused."""
    return f"labels/{check_name('dataset', dataset)}/{folder_of(day)}"


def check_name(kind: str, name: str) -> str:
    """Return `name`, or raise `NotEvaluableError` where it cannot be a folder's name."""
    if not _NAME.fullmatch(name):
        raise NotEvaluableError(
            Reason.NAME_INVALID,
            f"The {kind} name {name!r} is refused: a name is 1 to 100 letters, digits, '_', '.' "
            "or '-', and starts with a letter or a digit.",
        )
    return name


def open_below(folder: str, path: str) -> pa.NativeFile:
    """Open a regular file below a folder for reading at random; links within it are followed.

    What was opened is asked for its own path, so that no link can be put in its way meanwhile.

    Raises:
        FileNotFoundError: there is none.
        NotEvaluableError: `path_outside`; it is a link that leads out of the folder, or no regular
            file.
    """
    root = pathlib.Path(os.path.realpath(folder))
    try:
        # Without waiting: the opening of a pipe that nobody writes to would not end.
        descriptor = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        raise _refused(path) from None
    try:
        found = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not found.is_relative_to(root):
            raise _refused(path)
        return pa.OSFile(f"/dev/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _refused(path: str) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.PATH_OUTSIDE,
        f"{path} is refused, because it is a link out of the lake or not a regular file: put the "
        "file itself there.",
    )


def try_writing(what: str, place: str) -> None:
    """Write, read and delete a small file at a path or URI; a folder of this machine is made.

    Raises:
        TerminalError: it is a file, or it cannot be written, read or deleted in.
    """
    name = f"_privaudit_check_{uuid.uuid4().hex}"
    try:
        local = local_path(place)
        if local is not None:
            if local.exists() and not local.is_dir():
                raise TerminalError(
                    f"The {what} {local} is a file: name a folder for it in the settings."
                )
            local.mkdir(parents=True, exist_ok=True)
        files = open_filesystem(place)
        with files.open_output_stream(name) as stream:
            stream.write(b"probe")
        with files.open_input_stream(name) as stream:
            stream.read()
        files.delete_file(name)
    except OSError as error:
        raise TerminalError(
            f"The {what} {place} cannot be written, read and deleted in ({_why(error)}): check the "
            "address and the rights of these credentials."
        ) from error


def _why(error: OSError) -> str:
    """Return the system's own words, or else the first words of the library's."""
    if error.errno:
        return os.strerror(error.errno)
    return " ".join(str(error).split())[:200] or type(error).__name__

"""Files below a folder of this machine, opened so that no link leads out of it."""

import errno
import os
import pathlib
import stat

import pyarrow as pa

from workers.exceptions import NotEvaluableError, Reason

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting: the opening of a pipe that nobody writes to would not end."""


def open_below(folder: str, path: str) -> pa.NativeFile:
    """Open a regular file below a folder for reading at random; links within it are followed.

    Raises:
        FileNotFoundError: there is none.
        NotEvaluableError: `path_outside`; it is a link that leads out of the folder, or no regular
            file.
    """
    # realpath, since Path.resolve raises at a link to itself.
    root = pathlib.Path(os.path.realpath(folder))
    found = pathlib.Path(os.path.realpath(root / path))
    strange = found.is_symlink() or (found.exists() and not found.is_file())
    if strange or not found.is_relative_to(root):
        raise _refused(path)
    try:
        descriptor = _open_without_links(root, found.relative_to(root))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _refused(path) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refused(path)
        return pa.OSFile(f"/dev/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _open_without_links(root: pathlib.Path, path: pathlib.Path) -> int:
    """Return a descriptor of a file: a link that was put in its path since it was looked at fails.

    Each name is opened below the folder before it, so none of them is looked up twice.
    """
    opened = os.open(root, _READ | os.O_DIRECTORY)
    for place, name in enumerate(path.parts, 1):
        folder = os.O_DIRECTORY if place < len(path.parts) else 0
        try:
            inner = os.open(name, _READ | folder, dir_fd=opened)
        finally:
            os.close(opened)
        opened = inner
    return opened


def _refused(path: str) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.PATH_OUTSIDE,
        f"{path} is refused, because it is a link out of the lake or not a regular file: put the "
        "file itself there.",
    )

"""Files that somebody names, opened only where plain: a pipe would be waited for without end."""

import errno
import os
import pathlib
import stat
from io import BufferedReader


def open_plain(path: pathlib.Path, *, flags: int = 0) -> BufferedReader:
    """Return a plain file, opened to read its bytes.

    Args:
        path: of the file; links are followed.
        flags: more of `os.open`.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    kind = os.fstat(opened).st_mode
    if not stat.S_ISREG(kind):
        os.close(opened)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise OSError(errno.EINVAL, "it is no plain file", os.fspath(path))
    return os.fdopen(opened, "rb")

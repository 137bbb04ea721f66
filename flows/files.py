"""Files in folders that others may write to: replaced as a whole, and read only where plain."""

import os
import pathlib

from workers.plain_files import open_plain

LARGEST = 64 << 20
"""The most bytes of a file that are read."""


def read_plain(path: pathlib.Path) -> bytes | None:
    """Return what a plain file of at most `LARGEST` bytes holds; None of anything else.

    A pipe would be waited for, a link leads elsewhere, and a folder is no file.
    """
    try:
        with open_plain(path, flags=os.O_NOFOLLOW) as stream:
            content = stream.read(LARGEST + 1)
    except OSError:
        return None
    return content if len(content) <= LARGEST else None


def replace_file(path: pathlib.Path, content: bytes) -> None:
    """Write a file beside its place and move it there; an error names it, which writing does not.

    Raises:
        OSError: it cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.unlink(missing_ok=True)
        # Where others may write to the folder, one of them may have put a link to a file of ours.
        with unfinished.open("xb") as made:
            made.write(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error

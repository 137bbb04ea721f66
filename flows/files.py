"""Files that are replaced as a whole."""

import os
import pathlib


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

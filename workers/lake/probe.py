"""Test that a folder or bucket can be written to, made before the work is done."""

import os
import uuid

from privcore.exceptions import TerminalError
from workers.lake.layout import open_filesystem
from workers.lake.places import local_path


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
            same = stream.read() == b"probe"
        files.delete_file(name)
    except OSError as error:
        raise TerminalError(
            f"The {what} {place} cannot be written, read and deleted in ({_why(error)}): check the "
            "address and the rights of these credentials."
        ) from error
    if not same:
        raise TerminalError(
            f"The {what} {place} gave back other bytes than were written: check the storage."
        )


def _why(error: OSError) -> str:
    """Return the system's own words, or else the first words of the library's."""
    if error.errno:
        return os.strerror(error.errno)
    return " ".join(str(error).split())[:200] or type(error).__name__

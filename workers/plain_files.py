"""Files that somebody names, opened only where plain: a pipe would be waited for without end.

Those that hold a secret may be read by their owner alone, and none is ever replaced.
"""

import errno
import os
import pathlib
import secrets
import stat
from io import BufferedReader

from privcore.exceptions import TerminalError


def open_plain(path: pathlib.Path) -> BufferedReader:
    """Return a plain file, opened to read its bytes; links are followed.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    kind = os.fstat(opened).st_mode
    if not stat.S_ISREG(kind):
        os.close(opened)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise OSError(errno.EINVAL, "it is no plain file", os.fspath(path))
    return os.fdopen(opened, "rb")


MODE = 0o600
KEY_BYTES = 32
_LARGEST = 1 << 16


def read_key_file(path: pathlib.Path, what: str, *, make: str, public: bool = False) -> bytes:
    """Return what a key's file holds, which only its owner may read unless it is public.

    Raises:
        TerminalError: it is absent, cannot be read, or others can read it.
    """
    try:
        with open_plain(path) as stream:
            mode, content = stat.S_IMODE(os.fstat(stream.fileno()).st_mode), stream.read(_LARGEST)
    except OSError as error:
        raise TerminalError(
            f"The {what} {path} cannot be read ({error.strerror}): check the path, or make one "
            f"with {make}."
        ) from None
    if mode & 0o177 and not public:
        raise TerminalError(
            f"{path} has mode {mode:o}, so others may read the {what}: set mode 600 (chmod 600 "
            f"{path}), and make a new one with {make} if others could read it."
        )
    return content


def write_new(path: pathlib.Path, content: bytes, *, mode: int = MODE) -> None:
    """Write a file that is not there yet; by default one that its owner alone may read.

    Raises:
        TerminalError: something is there already, or it cannot be written.
    """
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(made, "wb") as stream:
            stream.write(content)
    except FileExistsError:
        raise TerminalError(
            f"{path} is there already: keep it, since without it nothing that was made with it can "
            "be made again; or name another file."
        ) from None
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be written ({error.strerror}): name another file."
        ) from None


def read_key(given: str | None, file: str | None, *, setting: str, variable: str) -> bytes:
    """Return a symmetric key.

    Args:
        given: its hexadecimal digits, from the environment; they win over the file.
        file: path of a file that holds them, and that its owner alone may read.
        setting: key of the settings that names the file.
        variable: of the environment that holds the digits.

    Raises:
        TerminalError: there is none, others may read its file, or it is no key.

    The answer does not say that the key is random: a key that was typed by hand can be guessed.
    """
    if given is not None:
        return _decoded(given, variable)
    if file is None:
        raise TerminalError(
            f"There is no key: set {setting}, or {variable} in the environment, and make one with "
            f"{_MAKE_KEY}."
        )
    content = read_key_file(pathlib.Path(file), "key", make=_MAKE_KEY)
    return _decoded(content.decode("ascii", errors="replace"), file)


def make_key(file: str | pathlib.Path) -> None:
    """Write a new random key, readable by its owner alone."""
    write_new(pathlib.Path(file), f"{secrets.token_hex(KEY_BYTES)}\n".encode())


_MAKE_KEY = "privaudit make-key"


def _decoded(digits: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(digits.strip())
    except ValueError:
        key = b""
    if not KEY_BYTES <= len(key) <= 2 * KEY_BYTES:
        rule = f"a key is {2 * KEY_BYTES} to {4 * KEY_BYTES} hexadecimal digits"
        raise TerminalError(f"{where} holds no key: {rule}; make one with {_MAKE_KEY}.")
    return key

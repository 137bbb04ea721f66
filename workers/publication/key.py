"""The key of published noise: read where the lake's side keeps it, and never shown."""

import pathlib
import secrets

from privcore.exceptions import TerminalError
from privcore.publication.keyed_noise import KEY_BYTES
from workers.publication.secret_files import read_secret, write_new

_RULE = f"a key is {2 * KEY_BYTES} to {4 * KEY_BYTES} hexadecimal digits"
_COMMAND = "privaudit publication-key"


def read_key(given: str | None, file: str | None) -> bytes:
    """Return the key.

    Args:
        given: its hexadecimal digits, from the environment; they win over the file.
        file: path of a file that holds them, and that its owner alone may read.

    Raises:
        TerminalError: there is none, others may read its file, or it is no key.

    The answer does not say that the key is random: a key that was typed by hand can be guessed.
    """
    if given is not None:
        return _decoded(given, "PRIVAUDIT_PUBLICATION__KEY")
    if file is None:
        raise TerminalError(
            "[publication] has no key: set key_file, or PRIVAUDIT_PUBLICATION__KEY in the "
            f"environment, and make one with {_COMMAND}."
        )
    content = read_secret(pathlib.Path(file), "key", make=_COMMAND)
    return _decoded(content.decode("ascii", errors="replace"), file)


def make_key(file: str | pathlib.Path) -> None:
    """Write a new random key, readable by its owner alone."""
    write_new(pathlib.Path(file), f"{secrets.token_hex(KEY_BYTES)}\n".encode())


def _decoded(digits: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(digits.strip())
    except ValueError:
        key = b""
    if not KEY_BYTES <= len(key) <= 2 * KEY_BYTES:
        raise TerminalError(f"{where} holds no key: {_RULE}; make one with {_COMMAND}.")
    return key

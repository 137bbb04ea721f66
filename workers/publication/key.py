"""The key of published noise: read where the lake's side keeps it, and never shown."""

import os
import pathlib
import secrets
import stat

from privcore.exceptions import TerminalError
from privcore.publication.keyed_noise import KEY_BYTES

_RULE = f"a key is {2 * KEY_BYTES} to {4 * KEY_BYTES} hexadecimal digits"
_MAKE = "make one with privaudit publication-key"


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
            f"environment, and {_MAKE}."
        )
    try:
        with pathlib.Path(file).open(encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(8 * KEY_BYTES)
    except FileNotFoundError:
        raise TerminalError(f"There is no key file {file}: {_MAKE}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TerminalError(
            f"The key file {file} cannot be read ({type(error).__name__}): {_MAKE}, or correct "
            "publication.key_file."
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TerminalError(
            f"Others may read the key file {file} (mode {stat.S_IMODE(mode):o}): chmod 600 it. If "
            "they could have done so, take a new key."
        )
    return _decoded(content, file)


def make_key(file: str | pathlib.Path) -> None:
    """Write a new random key, readable by its owner alone.

    Raises:
        TerminalError: something is there already: a key that is replaced cannot open commitments.
    """
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise TerminalError(
            f"{file} is there already: keep it, since with another key nothing published before "
            "can be recomputed; or give another path."
        ) from None
    except OSError as error:
        raise TerminalError(
            f"{file} cannot be written ({error.strerror}): give another path."
        ) from None
    with os.fdopen(made, "w", encoding="ascii") as opened:
        opened.write(f"{secrets.token_hex(KEY_BYTES)}\n")


def _decoded(digits: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(digits.strip())
    except ValueError:
        key = b""
    if not KEY_BYTES <= len(key) <= 2 * KEY_BYTES:
        raise TerminalError(f"{where} holds no key: {_RULE}; {_MAKE}.")
    return key

"""Files that carry tags under a secret: what another writer puts in their place is not taken.

A file is cut into blocks, each with a tag (HMAC-SHA256) over its place, its number and whether it
is the last, so that a file may be read in parts: STREAM of Hoang et al. 2015, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance", without the encryption.
"""

import functools
import hmac
import io
import secrets
from dataclasses import dataclass, field

import pyarrow as pa

from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import Lake
from workers.lake.random_reads import RandomReads
from workers.secret_files import state_key

TAG_BYTES = 32
BLOCK_BYTES = 1 << 18
_STORED_BYTES = BLOCK_BYTES + TAG_BYTES


@functools.cache
def driver_secret() -> bytes:
    """Return the secret of this user's drivers on this machine; else of this process alone."""
    return state_key("staging") or secrets.token_bytes(TAG_BYTES)


def tag(secret: bytes, place: str, content: bytes | memoryview) -> bytes:
    """Return the tag of a content at a place."""
    made = hmac.new(secret, place.encode() + b"\0", "sha256")
    made.update(content)
    return made.digest()


def untagged(secret: bytes, place: str, stored: bytes | memoryview) -> memoryview | None:
    """Return the content behind its tag, or None where the tag does not fit."""
    view = memoryview(stored)
    content = view[TAG_BYTES:]
    return content if hmac.compare_digest(view[:TAG_BYTES], tag(secret, place, content)) else None


@dataclass(frozen=True, slots=True)
class TaggedLake(Lake):
    """A folder for one pass, whose files are written and read with tags.

    Each of its files is written once, or with the same bytes again: the blocks of two contents of
    one name could be mixed.

    Attributes:
        secret: of the driver, which gives it to workers with their tasks.
    """

    secret: bytes = field(default_factory=driver_secret, repr=False)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at random; what is read is checked.

        Raises:
            NotEvaluableError: as for a lake. Reading raises `labels_changed` where a tag does not
                fit.
        """
        stored = Lake.open(self, path)
        return pa.PythonFile(_Reader(stored, path, self.secret, f"{self.uri}/{path}"), mode="r")

    def create(self, path: str) -> pa.NativeFile:
        """Open a file for writing, in an existing folder."""
        stream = Lake.create(self, path)
        return pa.PythonFile(_Writer(stream, self.secret, f"{self.uri}/{path}"), mode="w")


def _place(of_file: str, number: int, *, last: bool) -> str:
    return f"{of_file} {number} {'last' if last else 'more'}"


class _Writer(io.RawIOBase):
    """Writes blocks and their tags; the last one when it is closed, also where it is empty."""

    def __init__(self, stream: pa.NativeFile, secret: bytes, of_file: str) -> None:
        self._stream, self._secret, self._of_file = stream, secret, of_file
        self._held, self._number = bytearray(), 0

    def writable(self) -> bool:
        """Return whether it can be written: yes."""
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        """Hold what is no whole block yet, and one block, which may be the last."""
        self._held += content
        while len(self._held) > BLOCK_BYTES:
            self._put(last=False)
        return len(content)

    def close(self) -> None:
        """Write the last block."""
        if not self.closed:
            self._put(last=True)
            self._stream.close()
            super().close()

    def _put(self, *, last: bool) -> None:
        place = _place(self._of_file, self._number, last=last)
        block = bytes(self._held[:BLOCK_BYTES])
        self._stream.write(tag(self._secret, place, block))
        self._stream.write(block)
        del self._held[:BLOCK_BYTES]
        self._number += 1


class _Reader(RandomReads):
    """Reads the blocks that a range touches, and checks their tags."""

    def __init__(self, stored: pa.NativeFile, path: str, secret: bytes, of_file: str) -> None:
        self._stored, self._path = stored, path
        self._secret, self._of_file = secret, of_file
        self._blocks = max(1, -(-stored.size() // _STORED_BYTES))
        super().__init__(max(0, stored.size() - self._blocks * TAG_BYTES))

    def read(self, size: int = -1) -> memoryview:
        """Return up to `size` bytes of the content, without copying them once more."""
        stop = self._size if size < 0 else min(self._size, self._position + size)
        first = self._position // BLOCK_BYTES
        numbers = range(first, max(1, -(-stop // BLOCK_BYTES)))  # an empty file has a block, too
        stored = memoryview(
            self._stored.read_at(len(numbers) * _STORED_BYTES, first * _STORED_BYTES)
        )
        content = b"".join(
            self._checked(number, stored[place * _STORED_BYTES : (place + 1) * _STORED_BYTES])
            for place, number in enumerate(numbers)
        )
        offset = first * BLOCK_BYTES
        found = memoryview(content)[self._position - offset : stop - offset]
        self._position += len(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self._stored.close()
        super().close()

    def _checked(self, number: int, stored: memoryview) -> memoryview:
        place = _place(self._of_file, number, last=number == self._blocks - 1)
        content = untagged(self._secret, place, stored)
        if content is None:
            raise NotEvaluableError(
                Reason.LABELS_CHANGED,
                f"{self._path} in the staging area is not as this audit wrote it: see who else "
                "writes to the warehouse, and audit the day again.",
            )
        return content

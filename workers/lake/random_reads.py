"""A file of which Arrow reads any part, as Python's file objects are asked for it."""

import io


class RandomReads(io.RawIOBase):
    """A file of some size with a place in it; what is read there is a subclass's own."""

    def __init__(self, size: int) -> None:
        self._size, self._position = size, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte of the file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._position

    def readable(self) -> bool:
        """Return whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Return whether it can be sought in: yes."""
        return True

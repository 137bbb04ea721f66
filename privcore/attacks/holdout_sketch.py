"""A sketch of a night's holdout, by which a holdout that comes again is recognised.

    rows of a piece --> HoldoutSketch --+--> text of the whole holdout --> same_holdout, of nights
    rows of a piece --> HoldoutSketch --+

Nights beside one holdout are not independent: a draw that was unlucky for a model is so every night
(`privcore.lower_bounds.windows`, `recurring`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.counts import Counts
from privcore.attacks.hashing import mix, stream_key

_KEPT = 1024
"""Hashes of different rows that are kept: the smallest."""
_PLACES = 32
_FEWEST, _FEWEST_DIFFERENT = 30, 10
_DIFFERENT = 0.9
_SAME = 12 / _PLACES
"""Share of two sketches' bytes that agree where holdouts have more than about half of their rows in
common. By chance fresh ones do in one of 10^16 pairs; two that are each a fifth of the same
rows do in one of 10,000."""
_PARTS, _PART = 6, 4
"""Parts of a sketch of rows of which few come again, and bytes of each."""
_SALTS = np.array([stream_key("holdout", place) for place in range(_PLACES)], dtype=np.uint64)
_NAN = np.uint64(0x7FF8000000000000)


@dataclass(frozen=True, slots=True, eq=False)
class HoldoutSketch(Counts):
    """The smallest hashes of some rows, their number, and the sum of all hashes; it adds.

    A hash among the smallest of a sum is among the smallest of each part that holds it. So whatever
    the pieces and the order of addition, the sum is the same to the bit.

    Attributes:
        hashes: shape (different rows, at most 1,024), ascending.
        rows: their number, those that are alike each by itself.
        total: sum of the hashes of all rows, modulo 2^64.
    """

    hashes: NDArray[np.uint64]
    rows: int
    total: int

    @classmethod
    def of(cls, columns: Sequence[NDArray[np.uint64]]) -> "HoldoutSketch":
        """Return the sketch of rows, given each column's hashes, of shape (rows,), in any order.

        Args:
            columns: of `hashed_numbers` and `hashed_words`. A label must not be among them.
        """
        if not columns:
            return cls.zero()
        hashes = _mixed(np.sum(columns, axis=0, dtype=np.uint64), _SALTS[0])
        total = int(hashes.sum(dtype=np.uint64))
        return cls(_smallest(hashes), hashes.size, total)

    @classmethod
    def zero(cls) -> "HoldoutSketch":
        """Return the sketch of no rows, the identity of addition."""
        return cls(np.zeros(0, dtype=np.uint64), 0, 0)

    def __add__(self, other: "HoldoutSketch") -> "HoldoutSketch":
        """Return the sketch of both sets of rows."""
        return HoldoutSketch(
            _smallest(np.concatenate([self.hashes, other.hashes])),
            self.rows + other.rows,
            (self.total + other.total) % 2**64,
        )

    @property
    def different(self) -> float:
        """How many rows differ from each other: exact below 1,024, above it within 10%.

        The estimate is Bar-Yossef et al.'s (2002): 1,023 over the 1,024th smallest hash.
        """
        if self.hashes.size < _KEPT:
            return float(self.hashes.size)
        return (_KEPT - 1) / (float(self.hashes[-1]) * 2.0**-64)

    def text(self, *, few: bool = False) -> str | None:
        """Return the sketch of a whole holdout, 32 bytes in hexadecimal, for `same_holdout`.

        Each byte is the lowest of the smallest of one hash over all kept rows. Two holdouts agree
        in about the share of bytes that both have in common of all their rows. Rows that are few,
        or of which less than nine in ten differ, would agree by chance. Then the bytes are a digest
        of all rows: it recognises the same rows alone.

        *Does not hide* who is in a small holdout from a reader who knows all features of a row: of
        30 rows each has about one of the bytes, which another row has by chance once in 256 times.
        So it is for people who may read the rows. Others get it under a secret key.

        None where fewer than ten rows differ: then nothing tells two holdouts apart.

        Args:
            few: whether two are to agree where a tenth of their rows or less comes again. Then 8
                bytes are always alike, and 6 parts have 4 bytes each of one smallest hash, so that
                one part that both have makes 12 bytes alike. Fresh rows do so by chance in one of
                100,000 pairs.

        Source: Li and König, b-bit minwise hashing (2010), of the bottom-k sample of Cohen and
        Kaplan (2007).
        """
        if self.different < _FEWEST_DIFFERENT:
            return None
        if self.rows < _FEWEST or self.different < _DIFFERENT * self.rows:
            whole = f"{self.rows} {self.total}".encode()
            return hashlib.blake2b(whole, digest_size=_PLACES).hexdigest()
        if few:
            least = _minima(self.hashes, _SALTS[:_PARTS])
            parts = b"".join((int(one) & 0xFFFFFFFF).to_bytes(_PART) for one in least)
            return parts.ljust(_PLACES, b"\0").hex()
        return bytes(int(least) & 0xFF for least in _minima(self.hashes, _SALTS)).hex()


def _smallest(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the smallest different hashes, ascending, without sorting the others."""
    some = 4 * _KEPT
    if hashes.size > some:
        few = np.unique(np.partition(hashes, some)[:some])
        if few.size >= _KEPT:
            return few[:_KEPT]
    return np.unique(hashes)[:_KEPT]


def hashed_numbers(values: NDArray[np.float64], column: str) -> NDArray[np.uint64]:
    """Return a hash of each of a column's numbers, shape (rows,); all NaN are alike, and zeros.

    Args:
        values: shape (rows,).
        column: its name, so that a value counts in its own column alone.
    """
    bits = np.where(np.isnan(values), _NAN, (values + 0.0).view(np.uint64))
    return _mixed(bits, np.uint64(stream_key("column", column)))


def hashed_words(
    letters: NDArray[np.uint8], borders: NDArray[np.int64], column: str
) -> NDArray[np.uint64]:
    """Return a hash of each of a column's words, shape (rows,).

    Args:
        letters: shape (bytes,), of all words.
        borders: shape (rows + 1,), where each word begins, and the last one ends.
        column: its name.
    """
    return _mixed(_words(letters, borders), np.uint64(stream_key("column", column)))


def same_holdout(sketches: Sequence[str | None]) -> NDArray[np.int64]:
    """Return the last night before each that has the same holdout, -1 where none: shape (nights,).

    Args:
        sketches: of each night's holdout (`HoldoutSketch.text`), None where there is none. All may
            have had their bytes replaced under one key. Two are of the same holdout where 12 of
            their 32 bytes agree.
    """
    found = np.full(len(sketches), -1, dtype=np.int64)
    known = [place for place, sketch in enumerate(sketches) if sketch is not None]
    stacked = np.array([list(bytes.fromhex(sketches[place] or "")) for place in known])
    for number in range(1, len(known)):
        agreeing = (stacked[:number] == stacked[number]).mean(axis=1)
        (same,) = np.nonzero(agreeing >= _SAME)
        if same.size:
            found[known[number]] = known[same[-1]]
    return found


@njit(cache=True, nogil=True)
def _mixed(words: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.uint64]:
    mixed = np.empty(words.size, dtype=np.uint64)
    for i in range(words.size):
        mixed[i] = mix(mix(words[i]) ^ salt)
    return mixed


@njit(cache=True, nogil=True)
def _words(letters: NDArray[np.uint8], borders: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return FNV-1a of each word."""
    hashes = np.empty(borders.size - 1, dtype=np.uint64)
    for i in range(hashes.size):
        word = np.uint64(0xCBF29CE484222325)
        for j in range(borders[i], borders[i + 1]):
            word = (word ^ np.uint64(letters[j])) * np.uint64(0x100000001B3)
        hashes[i] = word
    return hashes


@njit(cache=True, nogil=True)
def _minima(hashes: NDArray[np.uint64], salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the smallest of each of some hashes over rows, shape (salts,)."""
    minima = np.full(salts.size, np.uint64(0xFFFFFFFFFFFFFFFF))
    for i in range(hashes.size):
        for place in range(salts.size):
            minima[place] = min(minima[place], mix(hashes[i] ^ salts[place]))
    return minima

"""All chance of the games: words that are hashes of a record's stream and the repetition.

A record's stream is a hash of the shard's key (`stream_key`) and the record's index
there. The same stream gives the same words, in whatever shard or order. Streams and
words are splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"):
the n-th output of the generator that starts at a key.

A *word* is 64 bits for one repetition: the lowest is the game's bit, the next one the coin that
decides ties, the upper 53 are a uniform number. The label-inference game, of which there is most,
gets by on a *draw* of 16, a quarter of a word: the lowest is the game's bit, the upper 15 are the
first of the uniform number. They decide unless they fall on a border (once in 2^15); only then, and
for the coin of a tie, the *rest* is hashed: the coin in its lowest bit, in its upper 38 the others
of the uniform number's 53.

A change here changes results: it takes a new METHOD_VERSION.
"""

import hashlib

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


def stream_key(*parts: str | int) -> int:
    """Return a 64-bit key from the audit's seed and the names of what is drawn.

    The same parts give the same key on every machine; different parts, even ("a", "bc") and
    ("ab", "c"), give keys that are independent for every practical purpose.

    >>> (
    ...     stream_key(0, "game") == stream_key(0, "game"),
    ...     stream_key(0, "game") == stream_key(1, "game"),
    ... )
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        word = f"{type(part).__name__}:{part}".encode()
        digest.update(len(word).to_bytes(8, "little") + word)
    return int.from_bytes(digest.digest(), "little")


def generator(*parts: str | int) -> np.random.Generator:
    """Return a numpy generator for the stream that `parts` name."""
    return np.random.Generator(np.random.PCG64(stream_key(*parts)))


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The odd number nearest to 2^64 over the golden ratio: the step of splitmix64."""

REST_BITS = np.uint64(38)
"""Number of a uniform number's 53 bits that a draw leaves to its rest."""

_RESTS = np.uint64(1 << 32)  # far behind the words of any repetition


@njit(cache=True, inline="always")
def mix(word: np.uint64) -> np.uint64:
    """Return the finaliser of splitmix64: every bit depends on every bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True, inline="always")
def rest_of(stream: np.uint64, repetition: int) -> np.uint64:
    """Return the word that completes a repetition's draw."""
    return mix(stream + (_RESTS + np.uint64(repetition)) * GOLDEN)


@njit(cache=True, inline="always")
def uniform_of(draw: np.uint64, rest: np.uint64) -> np.uint64:
    """Return the uniform number, in multiples of 2^-53."""
    return ((draw >> np.uint64(1)) << REST_BITS) | (rest >> np.uint64(64) - REST_BITS)


def record_streams(
    records: int, *, key: int, indices: NDArray[np.integer] | None
) -> NDArray[np.uint64]:
    """Return each record's stream, shape (records,), from the shard's key and its index there."""
    if indices is None:
        indices = np.arange(records)
    if indices.shape != (records,):
        raise InvalidInputError("indices", indices.shape, f"their shape is {(records,)}")
    return _streams(indices.astype(np.uint64), np.uint64(key))


@njit(cache=True, nogil=True)
def _streams(indices: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    streams = np.empty(indices.size, dtype=np.uint64)
    for i in range(indices.size):
        streams[i] = mix(key + (indices[i] + np.uint64(1)) * GOLDEN)
    return streams

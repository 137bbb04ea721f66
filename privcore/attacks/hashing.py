"""One 64-bit word for every stream and repetition: all chance of the games comes from here.

A record's word at a repetition is a hash of the record's stream and the repetition; its stream is a
hash of the shard's key (`privcore.attacks.streams`) and the record's index there. Whoever meets the
same stream, in whatever shard or order, meets the same words. The lowest bit of a word is the
game's bit, the next one the coin that decides ties, the upper 53 are a uniform number.

Streams and words are splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators"): the n-th output of the generator that starts at a key. No result may change with this
file: the audits that are stored were played with these words.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The odd number nearest to 2^64 over the golden ratio: the step of splitmix64."""


@njit(cache=True, inline="always")
def mix(word: np.uint64) -> np.uint64:
    """Return the finaliser of splitmix64: every bit depends on every bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def record_streams(
    records: int, *, key: int, indices: NDArray[np.integer] | None
) -> NDArray[np.uint64]:
    """Return each record's stream, shape (records,), from the shard's key and its index there.

    Raises:
        InvalidInputError: indices that are not one per record.
    """
    if indices is None:
        indices = np.arange(records)
    if indices.shape != (records,):
        raise InvalidInputError("indices", indices.shape, f"their shape is {(records,)}")
    return _streams(indices.astype(np.uint64), np.uint64(key))


@njit(cache=True, nogil=True)
def coin_words(streams: NDArray[np.uint64], repetitions: int) -> NDArray[np.uint64]:
    """Return the word of every stream and repetition, shape (streams, repetitions)."""
    words = np.empty((streams.size, repetitions), dtype=np.uint64)
    for i in range(streams.size):
        for repetition in range(repetitions):
            words[i, repetition] = mix(streams[i] + np.uint64(repetition + 1) * GOLDEN)
    return words


@njit(cache=True, nogil=True)
def _streams(indices: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    streams = np.empty(indices.size, dtype=np.uint64)
    for i in range(indices.size):
        streams[i] = mix(key + (indices[i] + np.uint64(1)) * GOLDEN)
    return streams

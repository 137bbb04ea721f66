"""CityHash64 1.0, by which CatBoost's files know words: the numbers of many words at once.

Each step is as Pike and Alakuijala published it (https://github.com/google/cityhash), on arrays of
words of one length; sums and products of 64 bits wrap.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]
Pair = tuple[Numbers, Numbers]

_K0, _K1, _K2, _K3 = (
    np.uint64(each)
    for each in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557)
)
_MIX = np.uint64(0x9DDFEA08EB382D69)
_CHUNK = 64


def city_hash(words: list[bytes]) -> Numbers:
    """Return each word's hash, shape (words,)."""
    found = np.empty(len(words), dtype=np.uint64)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        whole = b"".join(words[place] for place in places)
        found[places] = _of_length(np.frombuffer(whole, np.uint8).reshape(places.size, length))
    return found


def _of_length(text: NDArray[np.uint8]) -> Numbers:
    length = text.shape[1]
    if length <= 16:
        return _up_to_16(text)
    if length <= 32:
        return _up_to_32(text)
    return _up_to_64(text) if length <= _CHUNK else _longer(text)


def _up_to_16(text: NDArray[np.uint8]) -> Numbers:
    size = np.uint64(text.shape[1])
    if size > 8:
        first, last = _fetch(text, 0), _fetch(text, -8)
        return _mixed(first, _rotated(last + size, int(size))) ^ last
    if size >= 4:
        return _mixed(size + (_fetch(text, 0, 4) << np.uint64(3)), _fetch(text, -4, 4))
    if size == 0:
        return np.full(len(text), _K2)
    first, middle, last = (text[:, at].astype(np.uint64) for at in (0, int(size) >> 1, -1))
    low, high = first + (middle << np.uint64(8)), size + (last << np.uint64(2))
    return _shifted(low * _K2 ^ high * _K3) * _K2


def _up_to_32(text: NDArray[np.uint8]) -> Numbers:
    size = np.uint64(text.shape[1])
    one, two = _fetch(text, 0) * _K1, _fetch(text, 8)
    three, four = _fetch(text, -8) * _K2, _fetch(text, -16) * _K0
    return _mixed(
        _rotated(one - two, 43) + _rotated(three, 30) + four,
        one + _rotated(two ^ _K3, 20) - three + size,
    )


def _up_to_64(text: NDArray[np.uint8]) -> Numbers:
    size, end = np.uint64(text.shape[1]), _fetch(text, -16)
    first = _quarters(_fetch(text, 0) + (size + end) * _K0, text, (8, 16, 24))
    last = _quarters(_fetch(text, 16) + _fetch(text, -32), text, (-24, -16, -8))
    mixed = _shifted((first[0] + last[1]) * _K2 + (last[0] + first[1]) * _K0)
    return _shifted(mixed * _K0 + first[1]) * _K2


def _quarters(start: Numbers, text: NDArray[np.uint8], at: tuple[int, int, int]) -> Pair:
    """Return two numbers of half a text of up to 64 letters."""
    second, third, fourth = (_fetch(text, place) for place in at)
    most = start + second
    all_three = most + third
    turned = _rotated(start, 37) + _rotated(most, 7) + _rotated(all_three, 31)
    return all_three + fourth, _rotated(start + fourth, 52) + turned


def _longer(text: NDArray[np.uint8]) -> Numbers:
    size = np.uint64(text.shape[1])
    x, y, z = _fetch(text, 0), _fetch(text, -16) ^ _K1, _fetch(text, -56) ^ _K0
    v = _weak(text[:, -64:], np.full(len(text), size), y)
    w = _weak(text[:, -32:], np.full(len(text), size) * _K1, np.full(len(text), _K0))
    z = z + _shifted(v[1]) * _K1
    x, y = _rotated(z + x, 39) * _K1, _rotated(y, 33) * _K1
    for at in range(0, (int(size) - 1) // _CHUNK * _CHUNK, _CHUNK):
        chunk = text[:, at : at + _CHUNK]
        x = _rotated(x + y + v[0] + _fetch(chunk, 16), 37) * _K1 ^ w[1]
        y = _rotated(y + v[1] + _fetch(chunk, 48), 42) * _K1 ^ v[0]
        z = _rotated(z ^ w[0], 33)
        v = _weak(chunk, v[1] * _K1, x + w[0])
        w = _weak(chunk[:, 32:], z + w[1], y)
        x, z = z, x
    return _mixed(_mixed(v[0], w[0]) + _shifted(y) * _K1 + z, _mixed(v[1], w[1]) + x)


def _weak(text: NDArray[np.uint8], one: Numbers, two: Numbers) -> Pair:
    """Return two numbers of the first 32 letters and two seeds."""
    first, second, third, fourth = (_fetch(text, at) for at in (0, 8, 16, 24))
    begun = one + first
    whole = begun + second + third
    return whole + fourth, _rotated(two + begun + fourth, 21) + _rotated(whole, 44) + begun


def _fetch(text: NDArray[np.uint8], at: int, size: int = 8) -> Numbers:
    """Return the letters from a place on, as numbers whose lowest digits come first."""
    start = at % text.shape[1]
    letters = np.ascontiguousarray(text[:, start : start + size])
    return letters.view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotated(number: Numbers, by: int) -> Numbers:
    return number >> np.uint64(by) | number << np.uint64(64 - by)


def _shifted(number: Numbers) -> Numbers:
    return number ^ number >> np.uint64(47)


def _mixed(low: Numbers, high: Numbers) -> Numbers:
    first = _shifted((low ^ high) * _MIX)
    return _shifted((high ^ first) * _MIX) * _MIX

"""Exact noise for published figures, reproducible with a secret key.

A published figure is computed once and served many times, so its noise must be reproducible. A
keyed generator produces it, and the figure's name is part of the generator's input. A reader with
the key can compute the noise again; to every other reader it is random.
"""

import hashlib
import math
from fractions import Fraction

from privcore.exceptions import InvalidInputError

KEY_BYTES = 32
"""Minimum length of a key, so that it cannot be guessed."""
_BLOCK_BITS = 512


class KeyedBits:
    """Uniform integers from a secret key and the name of the draw.

    The generator is keyed BLAKE2b of a counter, a pseudorandom function (RFC 7693). Streams of
    different names are independent for every reader without the key.

    Args:
        key: the secret key, 32 to 64 bytes.
        name: the parts of the name; ("a", "bc") and ("ab", "c") are different names.

    *Assumes* that the key is random and secret; the class cannot check this.
    """

    def __init__(self, key: bytes, *name: str | int) -> None:
        if not KEY_BYTES <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            rule = f"it has {KEY_BYTES} to {hashlib.blake2b.MAX_KEY_SIZE} random bytes"
            raise InvalidInputError("length of the key", len(key), rule)
        named = hashlib.blake2b(key=key)
        for part in name:
            word = f"{type(part).__name__}:{part}".encode()
            named.update(len(word).to_bytes(8, "little") + word)
        self._named = named
        self._counter = 0
        self._bits, self._left = 0, 0

    def below(self, bound: int) -> int:
        """Return a uniformly distributed integer from 0 to `bound` - 1."""
        if bound < 1:
            raise InvalidInputError("bound", bound, "it is at least 1")
        needed = (bound - 1).bit_length()
        while True:  # each round ends it with a chance of more than one half
            drawn = self._take(needed)
            if drawn < bound:
                return drawn

    def _take(self, bits: int) -> int:
        while self._left < bits:
            block = self._named.copy()
            block.update(self._counter.to_bytes(16, "little"))
            self._counter += 1
            self._bits |= int.from_bytes(block.digest(), "little") << self._left
            self._left += _BLOCK_BITS
        drawn = self._bits & ((1 << bits) - 1)
        self._bits >>= bits
        self._left -= bits
        return drawn


def discrete_laplace(rate: Fraction, random: KeyedBits) -> int:
    """Return an integer j with a probability proportional to exp(-rate |j|), exactly.

    The sampler is Algorithm 2 of Canonne, Kamath and Steinke, "The Discrete Gaussian for
    Differential Privacy" (2020). It draws uniform integers only, because floating-point noise can
    reveal the figure (Mironov 2012).

    Args:
        rate: the privacy loss of moving the figure by 1, positive and rational.
        random: the source of uniform integers.
    """
    _check_rate(rate)
    step, scale = rate.numerator, rate.denominator
    while True:
        rest = random.below(scale)
        if not _happens_exp(Fraction(rest, scale), random):
            continue
        whole = 0
        while _happens_exp(Fraction(1), random):
            whole += 1
        size = (rest + scale * whole) // step
        negative = random.below(2) == 1
        if not (negative and size == 0):  # or 0 would be drawn twice as often
            return -size if negative else size


def discrete_laplace_tail(rate: Fraction, beyond: int) -> float:
    """Return the probability that `discrete_laplace` exceeds `beyond`, which is at least 0."""
    _check_rate(rate)
    if beyond < 0:
        raise InvalidInputError("beyond", beyond, "it is at least 0")
    ratio = float(rate)
    return math.exp(-ratio * (beyond + 1)) / (1.0 + math.exp(-ratio))


def _happens_exp(exponent: Fraction, random: KeyedBits) -> bool:
    """Draw an event of probability exp(-exponent), for an exponent from 0 to 1."""
    place = 1
    while random.below(exponent.denominator * place) < exponent.numerator:
        place += 1
    return place % 2 == 1


def _check_rate(rate: Fraction) -> None:
    if rate <= 0:
        raise InvalidInputError("rate", str(rate), "it is positive")

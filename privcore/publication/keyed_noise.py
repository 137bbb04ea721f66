"""Noise for published figures: exact, and the same for the same figure and key.

A published figure is drawn once and served again. So its noise comes from a keyed generator, whose
input names the figure: who has the key draws it again, and who has not sees noise.
"""

import hashlib
import math
from fractions import Fraction

from privcore.exceptions import InvalidInputError

KEY_BYTES = 32
"""Fewest bytes of a key, so that nobody guesses it."""
_BLOCK_BITS = 512


class KeyedBits:
    """Uniform integers from a secret key and the name of what they are drawn for.

    BLAKE2b, keyed, of a counter: a pseudorandom function (RFC 7693). Different names give streams
    that are independent for whoever does not have the key.

    Args:
        key: secret, of 32 to 64 bytes.
        name: the parts that name the draw; ("a", "bc") and ("ab", "c") are different.

    Raises:
        InvalidInputError: a key of another length.

    The answer does *not* say that a key is secret or random: whoever makes it sees to that.
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
        """Return an integer from 0 to `bound` - 1, each with the same chance.

        Raises:
            InvalidInputError: a bound below 1.
        """
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
    """Return an integer j with a probability proportional to exp(-rate |j|), without any rounding.

    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithm
    2: only uniform integers are drawn, so that no floating point opens what the noise closes
    (Mironov 2012).

    Args:
        rate: the privacy loss of moving the figure by 1, positive and rational.
        random: what it is drawn from.

    Raises:
        InvalidInputError: a rate that is not positive.
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
    """Return the probability that `discrete_laplace` exceeds `beyond`, which is at least 0.

    Raises:
        InvalidInputError: a rate that is not positive, or a negative bound.
    """
    _check_rate(rate)
    if beyond < 0:
        raise InvalidInputError("beyond", beyond, "it is at least 0")
    ratio = float(rate)
    return math.exp(-ratio * (beyond + 1)) / (1.0 + math.exp(-ratio))


def _happens_exp(exponent: Fraction, random: KeyedBits) -> bool:
    """Whether an event of probability exp(-exponent) happens, for an exponent from 0 to 1."""
    place = 1
    while random.below(exponent.denominator * place) < exponent.numerator:
        place += 1
    return place % 2 == 1


def _check_rate(rate: Fraction) -> None:
    if rate <= 0:
        raise InvalidInputError("rate", str(rate), "it is positive")

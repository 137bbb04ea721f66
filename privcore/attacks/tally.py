"""Counts that a game leaves behind: guesses and correct ones by confidence, per repetition.

A tally is small, holds no record-level data, and adds: with `Tally.zero` it is a commutative
monoid, so one pass over any amount of data, split in any way, gives the same answer to the bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

# A confidence falls into the bin of its leading bits: 16 to an octave, from 2^-26 up to 2^6. Bin 0
# holds the ties (score exactly 0, guessed by a coin); the ends take what lies beyond them.
BINS = 513
_SHIFT = 48
_FIRST = (1023 - 26) << 4


@njit(cache=True, inline="always")
def confidence_bin(score: float) -> int:
    """Bin of one score's absolute value; the score is not NaN."""
    size = abs(score)
    if size == 0.0:
        return 0
    leading = int(np.float64(size).view(np.int64) >> _SHIFT)
    return min(max(leading - _FIRST, 0), BINS - 2) + 1


def lower_edges() -> NDArray[np.float64]:
    """Smallest absolute score of every bin, shape (BINS,); 0 for the ties and for the first."""
    bits = (np.arange(BINS - 1, dtype=np.int64) + _FIRST) << _SHIFT
    edges = np.concatenate([[0.0], bits.view(np.float64)])
    edges[1] = 0.0
    return edges


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Counts of one arm of the game (training records, or the control's holdout records).

    Args:
        records: records that played, m.
        guesses: shape (repetitions, BINS), guesses made at each confidence; each row sums to m.
        correct: shape (repetitions, BINS), how many of them were right.

    >>> import numpy as np
    >>> from privcore.attacks import membership_inference, stream_key
    >>> parts = [
    ...     membership_inference(np.ones(2), np.zeros(2), repetitions=1, key=stream_key(0, name))
    ...     for name in ("one shard", "another")
    ... ]
    >>> (parts[0] + parts[1]).records
    4
    """

    records: int
    guesses: NDArray[np.int64]
    correct: NDArray[np.int64]

    @classmethod
    def zero(cls, repetitions: int) -> "Tally":
        """Return the tally of no records, the identity of addition."""
        shape = (repetitions, BINS)
        return cls(0, np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))

    @property
    def repetitions(self) -> int:
        """Number of times that the game was replayed."""
        return int(self.guesses.shape[0])

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both sets of records."""
        if self.repetitions != other.repetitions:
            rule = f"tallies to add have the same, {self.repetitions}"
            raise InvalidInputError("repetitions", other.repetitions, rule)
        if self.records == 0 or other.records == 0:  # nothing to add, and no arrays to copy
            return self if other.records == 0 else other
        return Tally(
            self.records + other.records,
            self.guesses + other.guesses,
            self.correct + other.correct,
        )

    def __eq__(self, other: object) -> bool:
        """Return whether every count is the same."""
        return (
            isinstance(other, Tally)
            and self.records == other.records
            and np.array_equal(self.guesses, other.guesses)
            and np.array_equal(self.correct, other.correct)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., "Tally"], tuple[Any, ...]]:
        """Pickle the counts as the narrowest type that holds them: of few records a quarter."""
        most = max(int(self.guesses.max(initial=0)), int(self.correct.max(initial=0)))
        narrow = np.min_scalar_type(most)
        narrowed = self.guesses.astype(narrow), self.correct.astype(narrow)
        return _of_narrow, (self.records, *narrowed)

    def most_confident(
        self, guesses: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return how many of the most confident guesses are right, for exact numbers of guesses.

        Of the bin that the border falls into, the adversary keeps as many guesses as are missing,
        chosen at random: a hypergeometric draw, which is what a legitimate adversary could do.

        Args:
            guesses: shape (fractions,), each from 0 to `records`.
            random: the audit's stream for this draw.

        Returns:
            Shape (repetitions, fractions).

        Raises:
            InvalidInputError: a number of guesses outside 0 to `records`.
        """
        if np.any(guesses < 0) or np.any(guesses > self.records):
            raise InvalidInputError("guesses", guesses, f"each lies in 0 to {self.records}")
        descending = self.guesses[:, ::-1]
        made = np.cumsum(descending, axis=1)
        right = np.cumsum(self.correct[:, ::-1], axis=1)
        border = np.stack([np.searchsorted(row, guesses) for row in made])
        in_bin = np.take_along_axis(descending, border, axis=1)
        right_in_bin = np.take_along_axis(self.correct[:, ::-1], border, axis=1)
        missing = guesses - (np.take_along_axis(made, border, axis=1) - in_bin)
        drawn = random.hypergeometric(right_in_bin, in_bin - right_in_bin, missing)
        above: NDArray[np.int64] = np.take_along_axis(right, border, axis=1) - right_in_bin
        return above + drawn


def _of_narrow(
    records: int, guesses: NDArray[np.unsignedinteger], correct: NDArray[np.unsignedinteger]
) -> Tally:
    """Return the tally of what `Tally` is pickled as."""
    return Tally(records, guesses.astype(np.int64), correct.astype(np.int64))

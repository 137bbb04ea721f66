"""The adversary's score by bit: what the game's guesses were made from, for one repetition."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.hashing import draw_of, rest_of, uniform_of
from privcore.attacks.replays import TIES, Deal
from privcore.attacks.tally import BINS, lower_edges

_SIGNED = 2 * BINS - 1  # bins of negative scores, the ties, bins of positive scores
_BARS = 16  # on either side of 0: as many as an octave has bins, so that edges coincide


@dataclass(frozen=True, slots=True)
class Bar:
    """Records with this bit whose score lies from `lower` to `upper`."""

    bit: int
    lower: float
    upper: float
    records: int


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTally:
    """Counts of scores by bit, in a tally's bins on both sides of 0; it adds like a `Tally`.

    Args:
        counts: shape (2, 2 BINS - 1), bit 0 (the counterfactual was shown) before bit 1 (the
            label was), scores ascending.
    """

    counts: NDArray[np.int64]

    @classmethod
    def zero(cls) -> "ScoreTally":
        """Return the tally of no records, the identity of addition."""
        return cls(np.zeros((2, _SIGNED), dtype=np.int64))

    def __add__(self, other: "ScoreTally") -> "ScoreTally":
        """Return the tally of both sets of records."""
        return ScoreTally(self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        """Return whether every count is the same."""
        return isinstance(other, ScoreTally) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]

    def bars(self, *, minimum: int = 10) -> tuple[Bar, ...]:
        """Return the distribution as bars of equal width, each of at least `minimum` records.

        The range is the smallest power of two, up and down, that holds 99% of the scores; the
        outermost bars hold all beyond. Edges are edges of the tally's bins, so nothing is spread.
        """
        total = int(self.counts.sum())
        if total == 0:
            return ()
        edges = lower_edges()
        sizes = self.counts[:, BINS - 1 :].sum(axis=0)
        sizes[1:] += self.counts[:, : BINS - 1].sum(axis=0)[::-1]
        largest = edges[int(np.searchsorted(np.cumsum(sizes), 0.99 * total))]
        limit = 2.0 ** (np.floor(np.log2(largest)) + 1.0) if largest > 0.0 else edges[2]
        width = limit / _BARS
        places = np.minimum(np.floor(edges / width).astype(np.int64), _BARS - 1)
        # A tie belongs to the bar right of 0; a negative score's bar is the mirrored one.
        bar_of = np.concatenate([_BARS - 1 - places[:0:-1], _BARS + places])
        bars = []
        for bit in (0, 1):
            counts = np.zeros(2 * _BARS, dtype=np.int64)
            np.add.at(counts, bar_of, self.counts[bit])
            bars += [
                Bar(bit, (bar - _BARS) * width, (bar + 1 - _BARS) * width, int(count))
                for bar, count in enumerate(counts)
                if count >= minimum
            ]
        return tuple(bars)


def score_distribution(deal: Deal) -> ScoreTally:
    """Count the scores of what is shown in the game's first repetition, by bit."""
    counts = np.zeros((2, _SIGNED), dtype=np.int64)
    _count(deal.outcomes, deal.borders, deal.streams, counts)
    return ScoreTally(counts)


@njit(cache=True, nogil=True)
def _count(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Add to `counts` what is shown of every record in the first repetition."""
    own = outcomes.shape[1] - 1
    for i in range(streams.size):
        draw = draw_of(streams[i], 0)
        bit = np.int64(draw & np.uint64(1))
        shown = own
        if bit == 0:
            shown = 0
            uniform = uniform_of(draw, rest_of(streams[i], 0))
            for label in range(borders.shape[0]):
                shown += np.int64(uniform >= borders[label, i])
        cell = np.int64(outcomes[i, shown])
        # The sign says "label" where that guess is right, and is where it is not.
        positive = (cell & 1) == bit
        place = 0 if cell == TIES else cell >> 1
        counts[bit, BINS - 1 + (place if positive else -place)] += 1

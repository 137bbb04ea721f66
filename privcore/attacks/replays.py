"""The inner loop of every game: one record, all repetitions at once.

A record has few outcomes (its own label is shown, or one of the counterfactuals), and each of them
counts in one cell of the histogram. So the histogram is held with repetitions side by side, and a
record adds a row of zeros and ones to the row of each of its cells: additions that compile to
vector instructions, where counting one guess at a time would wait for memory at every step.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.hashing import GOLDEN, mix
from privcore.attacks.tally import BINS, Tally, confidence_bins
from privcore.exceptions import InvalidInputError

TIES = np.uint16(BINS * 2)
"""The cell of scores of exactly 0, until a coin has guessed."""


def replay(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    *,
    repetitions: int,
) -> Tally:
    """Play every record `repetitions` times and return the tally.

    Args:
        outcomes: shape (records, counterfactuals + 1), the cell of every counterfactual and, last,
            of the record's own label, each from `outcome_cells`.
        borders: shape (counterfactuals - 1, records), ascending: where the cumulative probability
            of the counterfactuals, in multiples of 2^-53, passes from one to the next.
        streams: shape (records,), from `record_streams`.
        repetitions: how often the game is replayed.

    Raises:
        InvalidInputError: no repetitions.
    """
    check_repetitions(repetitions)
    counts = np.zeros((TIES + 1, repetitions), dtype=np.uint32)
    _replay(outcomes, borders, streams, counts)
    return tally_of(len(streams), counts[:TIES])


def outcome_cells(scores: NDArray[np.float64], *, own: bool) -> NDArray[np.uint16]:
    """Return where a guess by the sign of each score counts: twice its bin, plus 1 if it is right.

    `TIES` at a score of exactly 0, which has no sign. Shape of `scores`, (records, labels); `own`
    says that what is shown is the record's own.
    """
    right = scores > 0.0 if own else scores < 0.0
    cells = confidence_bins(scores) * np.uint16(2) + right
    return np.where(scores == 0.0, TIES, cells)


def tally_of(records: int, counts: NDArray[np.uint32]) -> Tally:
    """Return the tally of counts of shape (BINS * 2, repetitions), wrong before right."""
    correct = np.ascontiguousarray(counts[1::2].T, dtype=np.int64)
    return Tally(records, correct + counts[0::2].T, correct)


def check_repetitions(repetitions: int) -> None:
    """Raise `InvalidInputError` unless the game is played at all."""
    if repetitions < 1:
        raise InvalidInputError("repetitions", repetitions, "the game is played at least once")


@njit(cache=True, nogil=True)
def _replay(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    counts: NDArray[np.uint32],
) -> None:
    """Add every record's outcomes to `counts`, shape (BINS * 2 + 1, repetitions).

    `left` holds a 1 for each repetition whose outcome is not found yet: those that show the
    record's own label drop out first, then label by label those whose uniform number lies under
    its border, and the last label takes the rest. Ties gather in the last row of `counts`; the
    word's second bit is their guess, and they are right where it equals the first.
    """
    repetitions, last = counts.shape[1], borders.shape[0]
    turns = np.empty(repetitions, dtype=np.uint64)
    for r in range(repetitions):
        turns[r] = np.uint64(r + 1) * GOLDEN
    words = np.empty(repetitions, dtype=np.uint64)
    left = np.empty(repetitions, dtype=np.uint32)
    one, low = np.uint64(1), np.uint64(11)
    wrong, right, ties = counts[0], counts[1], counts[TIES]
    for i in range(streams.size):
        stream = streams[i]
        for r in range(repetitions):
            words[r] = mix(stream + turns[r])
        tied = outcomes[i, last] == TIES or outcomes[i, last + 1] == TIES
        row = counts[outcomes[i, last + 1]]
        for r in range(repetitions):
            own = np.uint32(words[r] & one)
            left[r] = np.uint32(1) - own
            row[r] += own
        for label in range(last):
            tied |= outcomes[i, label] == TIES
            border = borders[label, i]
            row = counts[outcomes[i, label]]
            for r in range(repetitions):
                hit = left[r] & np.uint32((words[r] >> low) < border)
                left[r] -= hit
                row[r] += hit
        row = counts[outcomes[i, last]]
        for r in range(repetitions):
            row[r] += left[r]
        if tied:
            for r in range(repetitions):
                hit = ties[r] & np.uint32(~(words[r] ^ (words[r] >> one)) & one)
                right[r] += hit
                wrong[r] += ties[r] - hit
                ties[r] = 0

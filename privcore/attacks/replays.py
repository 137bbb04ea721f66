"""The inner loop of every game: one record, all repetitions at once.

A record has few outcomes (its own label is shown, or one of the counterfactuals), and each of them
counts in one cell of the histogram. So the histogram is held with repetitions side by side, four to
a word of 64 bits as their draws are, and a record adds a row of zeros and ones to the row of each
of its cells: whole words, which compile to vector instructions, where counting one guess at a time
would wait for memory at every step.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.hashing import GOLDEN, REST_BITS, mix, rest_of, uniform_of
from privcore.attacks.tally import BINS, Tally, confidence_bin
from privcore.exceptions import InvalidInputError

TIES = np.uint16(BINS * 2)
"""The cell of scores of exactly 0, until a coin has guessed."""

_AT_ONCE = (1 << 16) - 1  # records that a lane of 16 bits can count

# Lanes of 16 bits: a one in each, all but the highest bit of each, the highest bit of each.
_ONES = np.uint64(0x0001_0001_0001_0001)
_LOW = np.uint64(0x7FFF_7FFF_7FFF_7FFF)
_HIGH = np.uint64(0x8000_8000_8000_8000)
_TOP = np.uint64(15)


@dataclass(frozen=True, slots=True)
class Deal:
    """Outcomes that may be shown of every record, and the chances that choose between them.

    Args:
        outcomes: shape (records, counterfactuals + 1), the cell of every counterfactual and, last,
            of the record's own label: twice the bin of the score, plus 1 where its sign is the
            right guess; `TIES` at a score of exactly 0, which has no sign.
        borders: shape (counterfactuals - 1, records), ascending: where the cumulative probability
            of the counterfactuals, in multiples of 2^-53, passes from one to the next.
        streams: shape (records,), from `record_streams`.
    """

    outcomes: NDArray[np.uint16]
    borders: NDArray[np.uint64]
    streams: NDArray[np.uint64]


def replay(deal: Deal, *, repetitions: int) -> Tally:
    """Play every record `repetitions` times and return the tally."""
    check_repetitions(repetitions)
    records = deal.streams.size
    counts = np.zeros((TIES, repetitions), dtype=np.int64)
    words = np.zeros((TIES + 1, (repetitions + 3) // 4), dtype=np.uint64)
    for first in range(0, records, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        borders = np.ascontiguousarray(deal.borders[:, some])
        _replay(deal.outcomes[some], borders, deal.streams[some], words)
        counts += words.view("<u2")[:TIES, :repetitions]
        words[:] = 0
    return tally_of(records, counts)


def replay_groups(deal: Deal, groups: NDArray[np.integer], *, repetitions: int) -> Iterator[Tally]:
    """Yield the tally of each group, from 0 to the largest: they add up to the whole game's.

    Args:
        deal: of all records.
        groups: shape (records,), each record's group.
        repetitions: how often each record is played.
    """
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(int(groups.max(initial=-1)) + 2))
    for first, last in itertools.pairwise(ends):
        own = order[first:last]
        one = Deal(deal.outcomes[own], deal.borders[:, own], deal.streams[own])
        yield replay(one, repetitions=repetitions)


def outcome_cells(scores: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Return the outcomes of a `Deal` in which every label is also a counterfactual.

    Args:
        scores: shape (records, labels).
        labels: shape (records,), the record's own.
    """
    records, classes = scores.shape
    cells = np.empty((records, classes + 1), dtype=np.uint16)
    if not _outcome_cells(scores, labels.astype(np.int64, copy=False), cells):
        raise InvalidInputError("score", float("nan"), "a score is a number")
    return cells


@njit(cache=True, inline="always")
def _outcome_cell(score: float, own: int) -> np.uint16:
    """Return the cell of one outcome; `own` says that what is shown is the record's own label."""
    if score == 0.0:
        return TIES
    return np.uint16(confidence_bin(score) * 2 + (int(score > 0.0) ^ own ^ 1))


def tally_of(records: int, counts: NDArray[np.integer]) -> Tally:
    """Return the tally of counts of shape (BINS * 2, repetitions), wrong before right."""
    correct = np.ascontiguousarray(counts[1::2].T, dtype=np.int64)
    return Tally(records, correct + counts[0::2].T, correct)


def check_repetitions(repetitions: int) -> None:
    """Raise `InvalidInputError` unless the game is played at all."""
    if repetitions < 1:
        raise InvalidInputError("repetitions", repetitions, "the game is played at least once")


@njit(cache=True, nogil=True)
def _outcome_cells(
    scores: NDArray[np.float64], labels: NDArray[np.int64], cells: NDArray[np.uint16]
) -> bool:
    """Fill in the cells; false where a score is NaN."""
    classes = scores.shape[1]
    for i in range(scores.shape[0]):
        for label in range(classes):
            if np.isnan(scores[i, label]):
                return False
            cells[i, label] = _outcome_cell(scores[i, label], 0)
        cells[i, classes] = _outcome_cell(scores[i, labels[i]], 1)
    return True


@njit(cache=True, nogil=True)
def _replay(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    counts: NDArray[np.uint64],
) -> None:
    """Add every record's outcomes to `counts`, shape (BINS * 2 + 1, words), at most 65,535.

    `left` holds a 1 for each repetition whose outcome is not found yet: those that show the
    record's own label drop out first, then label by label those whose uniform number lies under
    its border, and the last label takes the rest. Ties gather in the last row of `counts`, until
    their coins are flipped.
    """
    words, last = counts.shape[1], borders.shape[0]
    turns = np.arange(1, words + 1).astype(np.uint64) * GOLDEN
    draws = np.empty(words, dtype=np.uint64)
    left = np.empty(words, dtype=np.uint64)
    one = np.uint64(1)
    for i in range(streams.size):
        stream = streams[i]
        for word in range(words):
            draws[word] = mix(stream + turns[word])
        tied = outcomes[i, last] == TIES or outcomes[i, last + 1] == TIES
        row = counts[outcomes[i, last + 1]]
        for word in range(words):
            own = draws[word] & _ONES
            left[word] = own ^ _ONES
            row[word] += own
        for label in range(last):
            tied |= outcomes[i, label] == TIES
            border = borders[label, i]
            high = (border >> REST_BITS) * _ONES
            row = counts[outcomes[i, label]]
            close = np.uint64(0)
            for word in range(words):
                uniform = (draws[word] >> one) & _LOW
                # No lane borrows from the next: its highest bit is set first, and stays where the
                # number is not under the border.
                above = ((uniform | _HIGH) - high) >> _TOP
                hit = left[word] & ~above
                # A lane that equals the border's is 0 here, and its highest bit stays 0.
                close |= left[word] & ~((((uniform ^ high) & _LOW) + _LOW) >> _TOP)
                left[word] ^= hit
                row[word] += hit
            if close:
                _add_close(stream, draws, border, left, row)
        row = counts[outcomes[i, last]]
        for word in range(words):
            row[word] += left[word]
        if tied:
            _flip_coins(stream, draws, counts)


@njit(cache=True, nogil=True)
def _add_close(
    stream: np.uint64,
    draws: NDArray[np.uint64],
    border: np.uint64,
    left: NDArray[np.uint64],
    row: NDArray[np.uint64],
) -> None:
    """Find, by all of its bits, whether a number that begins like the border lies under it."""
    for repetition in range(4 * draws.size):
        word, lane = repetition // 4, np.uint64(16 * (repetition % 4))
        draw = (draws[word] >> lane) & np.uint64(0xFFFF)
        if (
            (left[word] >> lane) & np.uint64(1)
            and draw >> np.uint64(1) == border >> REST_BITS
            and uniform_of(draw, rest_of(stream, repetition)) < border
        ):
            left[word] ^= np.uint64(1) << lane
            row[word] += np.uint64(1) << lane


@njit(cache=True, nogil=True)
def _flip_coins(stream: np.uint64, draws: NDArray[np.uint64], counts: NDArray[np.uint64]) -> None:
    """Count the ties by their coins: right where coin and bit agree."""
    wrong, right, ties = counts[0], counts[1], counts[TIES]
    for repetition in range(4 * draws.size):
        word, lane = repetition // 4, np.uint64(16 * (repetition % 4))
        if (ties[word] >> lane) & np.uint64(1):
            differ = ((draws[word] >> lane) ^ rest_of(stream, repetition)) & np.uint64(1)
            right[word] += (differ ^ np.uint64(1)) << lane
            wrong[word] += differ << lane
    ties[:] = 0

"""The label-inference game: training label or counterfactual?"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.attacks.scores import Score
from privcore.attacks.tally import BINS, Tally, confidence_bins
from privcore.exceptions import InvalidInputError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEPS = 2.0**53
_CHUNK = 1024  # records whose hashes and outcomes stay in the processor's nearest cache


@njit(cache=True, inline="always")
def _mix(word: np.uint64) -> np.uint64:
    # The finaliser of splitmix64 (Steele, Lea and Flood 2014): every bit depends on every bit.
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True, nogil=True)
def _play(
    outcomes: NDArray[np.uint16],
    borders: NDArray[np.uint64],
    indices: NDArray[np.uint64],
    key: np.uint64,
    counts: NDArray[np.int64],
) -> None:
    """Add every record's outcome to `counts`, shape (repetitions, BINS * 2), wrong before right.

    `outcomes`, shape (records, classes + 1), says where a record counts if a label is shown as the
    counterfactual, and in its last column if its own is; 0 where the score is a tie. One hash gives
    the bit (its lowest), a coin for ties (the next) and the counterfactual (the upper 53, which
    pass as many of `borders`, shape (classes - 1, records), as the counterfactual's index).

    Hashing and drawing are loops without a branch or a look-up, which compile to vector
    instructions; all numbers are unsigned, as a signed index costs a test for wrapping around.
    """
    records, own = outcomes.shape[0], np.uint64(outcomes.shape[1] - 1)
    streams = np.empty(_CHUNK, dtype=np.uint64)
    words = np.empty(_CHUNK, dtype=np.uint64)
    shown = np.empty(_CHUNK, dtype=np.uint64)
    one, two, low = np.uint64(1), np.uint64(2), np.uint64(11)
    for start in range(0, records, _CHUNK):
        size = min(_CHUNK, records - start)
        rows = outcomes[start : start + size]
        names = indices[start : start + size]
        for i in range(size):
            streams[i] = _mix(key + (names[i] + one) * _GOLDEN)
        for repetition in range(counts.shape[0]):
            turn = np.uint64(repetition + 1) * _GOLDEN
            histogram = counts[repetition]
            border = borders[0, start : start + size]
            for i in range(size):
                word = _mix(streams[i] + turn)
                words[i] = word
                shown[i] = np.uint64((word >> low) >= border[i])
            for label in range(1, borders.shape[0]):
                border = borders[label, start : start + size]
                for i in range(size):
                    shown[i] += np.uint64((words[i] >> low) >= border[i])
            for i in range(size):
                real = words[i] & one
                cell = np.uint64(rows[i, shown[i] + real * (own - shown[i])])
                coin = (words[i] >> one) & one
                histogram[cell ^ ((coin ^ real ^ one) & np.uint64(cell < two))] += 1


def label_inference(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    score: Score,
    repetitions: int,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Tally:
    """Play the game on every record, `repetitions` times, and count.

    "Observational Auditing of Privacy", Algorithm 2. For each record and repetition a fair bit
    decides whether the adversary is shown the label or a counterfactual drawn from the proxy; it
    guesses "label" where the score is positive, "counterfactual" where it is negative, and by a
    fair coin at exactly 0. Whether it abstains is decided later, from the tally.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), those of the model that never saw these labels.
        labels: shape (records,), class indices from 0.
        score: the adversary.
        repetitions: how often the game is replayed with fresh bits and counterfactuals.
        key: the random stream, from `stream_key`; the bits of a record depend on it, on the
            record's index and on the repetition alone.
        indices: shape (records,), the records' indices in the stream; 0, 1, ... by default.

    Raises:
        InvalidInputError: shapes that differ, probabilities that are NaN, outside [0, 1] or do not
            sum to 1 within 1e-6, a label outside the classes, no repetitions.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    if repetitions < 1:
        raise InvalidInputError("repetitions", repetitions, "the game is played at least once")
    records = len(labels)
    scores = score(target, proxy)
    counts = np.zeros((repetitions, BINS * 2), dtype=np.int64)
    _play(
        _outcomes(scores, labels),
        np.ceil(np.cumsum(proxy, axis=1)[:, :-1].T * _STEPS).astype(np.uint64, order="C"),
        (np.arange(records) if indices is None else indices).astype(np.uint64),
        np.uint64(key),
        counts,
    )
    wrong, right = counts[:, 0::2], counts[:, 1::2]
    return Tally(records, wrong + right, right.copy())


def _outcomes(scores: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Twice the bin plus whether the guess is right, for every counterfactual and the own label."""
    cells = confidence_bins(scores) * np.uint16(2)
    outcomes = np.empty((len(labels), scores.shape[1] + 1), dtype=np.uint16)
    outcomes[:, :-1] = cells + (scores < 0.0)
    rows = np.arange(len(labels))
    outcomes[:, -1] = cells[rows, labels] + (scores[rows, labels] > 0.0)
    return outcomes

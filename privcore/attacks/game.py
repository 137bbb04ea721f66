"""The label-inference game: training label or counterfactual?"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.attacks.scores import Score
from privcore.attacks.tally import BINS, Tally, confidence_bins
from privcore.exceptions import InvalidInputError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIT = 2.0**-53
_CHUNK = 4096


@njit(cache=True, inline="always")
def _mix(word: np.uint64) -> np.uint64:
    # The finaliser of splitmix64 (Steele, Lea and Flood 2014): every bit depends on every bit.
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True, nogil=True)
def _play(
    cells: NDArray[np.int64],
    labels: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    indices: NDArray[np.uint64],
    key: np.uint64,
    counts: NDArray[np.int64],
) -> None:
    """Add every record's outcome to `counts`, shape (repetitions, BINS * 2), wrong before right.

    `cells` holds, for each label that may be shown, twice its bin plus whether the guess is
    "training label". The bit and the counterfactual are chosen without a branch that a processor
    could mispredict: that is most of the loop's speed.
    """
    records, classes = cells.shape
    streams = np.empty(_CHUNK, dtype=np.uint64)
    for start in range(0, records, _CHUNK):
        stop = min(start + _CHUNK, records)
        for i in range(start, stop):
            streams[i - start] = _mix(key + (indices[i] + np.uint64(1)) * _GOLDEN)
        for repetition in range(counts.shape[0]):
            turn = np.uint64(repetition + 1) * _GOLDEN
            histogram = counts[repetition]
            for i in range(start, stop):
                word = _mix(streams[i - start] + turn)
                real = np.int64(word & np.uint64(1))
                uniform = np.float64(np.int64(word >> np.uint64(11))) * _UNIT
                shown = np.int64(0)
                for label in range(classes - 1):
                    shown += np.int64(uniform >= cumulative[i, label])
                shown += real * (labels[i] - shown)
                cell = cells[i, shown]
                guess = cell & 1
                if cell < 2:
                    guess = np.int64(word >> np.uint64(1)) & 1
                histogram[(cell | 1) - (guess ^ real)] += 1


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
    cells = confidence_bins(scores).astype(np.int64) * 2 + (scores > 0.0)
    counts = np.zeros((repetitions, BINS * 2), dtype=np.int64)
    _play(
        cells,
        labels.astype(np.int64),
        np.cumsum(proxy, axis=1),
        (np.arange(records) if indices is None else indices).astype(np.uint64),
        np.uint64(key),
        counts,
    )
    wrong, right = counts[:, 0::2], counts[:, 1::2]
    return Tally(records, wrong + right, right.copy())

"""The label-inference game: training label or counterfactual?"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.checks import check_labels, check_pair
from privcore.attacks.hashing import record_streams
from privcore.attacks.replays import Deal, outcome_cells, replay
from privcore.attacks.scores import Score
from privcore.attacks.tally import Tally

_STEPS = 2.0**53


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

    "Observational Auditing of Label Privacy", Algorithm 2. For each record and repetition a fair
    bit decides whether the adversary is shown the label or a counterfactual drawn from the proxy;
    it guesses "label" where the score is positive, "counterfactual" where it is negative, and by a
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

    >>> import numpy as np
    >>> from privcore.attacks import LogRatioScore, stream_key
    >>> target, proxy = np.array([[0.1, 0.9], [0.9, 0.1]]), np.full((2, 2), 0.5)
    >>> tally = label_inference(
    ...     target,
    ...     proxy,
    ...     np.array([1, 0]),
    ...     score=LogRatioScore(),
    ...     repetitions=3,
    ...     key=stream_key(0, "game"),
    ... )
    >>> tally.records, tally.guesses.sum(axis=1).tolist()
    (2, [2, 2, 2])
    """
    return replay(
        draw_counterfactuals(target, proxy, labels, score=score, key=key, indices=indices),
        repetitions=repetitions,
    )


def draw_counterfactuals(
    target: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
    *,
    score: Score,
    key: int,
    indices: NDArray[np.integer] | None = None,
) -> Deal:
    """Return what the game may show of every record: what `replay` and `score_distribution` take.

    Args and errors are those of `label_inference`, which deals and replays at once.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    return Deal(
        outcome_cells(score(target, proxy), labels),
        _counterfactual_borders(proxy),
        record_streams(len(labels), key=key, indices=indices),
    )


def _counterfactual_borders(proxy: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return where the proxy's cumulative probabilities pass from one label to the next.

    In multiples of 2^-53, shape (classes - 1, records): a uniform number of 53 bits names the
    counterfactual by how many of them it has reached.
    """
    return np.ceil(np.cumsum(proxy.T[:-1], axis=0) * _STEPS).astype(np.uint64)

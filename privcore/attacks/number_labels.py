"""Numbers as labels: the audit infers whether a label is above the proxy's prediction.

A label that is a number (a price, a watch time) has no classes, so it is given two, record by
record: *above* the proxy's prediction, or not. The proxy never saw the label, so the border is
fixed before it; the class is a function of the label, so a guarantee for replacing the label is one
for replacing the class, and all that is proved of classes holds. A model that remembers a number
deviates from the proxy on the number's side.

How likely a label lies above differs from record to record (there are more zeros among small
predictions), and the proxy does not say it. So records are matched by the place of its prediction
among all (`privcore.attacks.order`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privcore.exceptions import InvalidInputError

ABOVE = ("not above the proxy", "above the proxy")
"""The two classes, in their order."""

_AT_ONE, _OCTAVES, _MOST, _LEAST = 7.0, 8.0, 13.5, 0.5  # log-odds, but for octaves to each


def above(labels: NDArray[np.float64], proxy: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return 1 where a label lies above the proxy's prediction, else 0.

    Args:
        labels: shape (records,), finite.
        proxy: shape (records,), predictions by a model that never saw these labels; finite.
    """
    check_numbers(labels, proxy)
    return (labels > proxy).astype(np.int64)


def above_odds(
    target: NDArray[np.float64], proxy: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how sure each model is of the two classes, both of shape (records, 2).

    The proxy is undecided: 1/2. The target is the surer of a side the further its prediction lies
    on it: its log-odds grow by 1/8 with each doubling of the distance, 7 at a distance of 1. So an
    octave is a bin of the tally, whatever the numbers' unit. These are an order, no chances: their
    fidelity says nothing, and nothing that is proved depends on them.

    Args:
        target: shape (records,), the audited model's predictions; finite.
        proxy: shape (records,), the other's; finite.
    """
    check_numbers(target, proxy)
    # Halves first: a difference of two large numbers may be none.
    apart = target / 2.0 - proxy / 2.0
    with np.errstate(divide="ignore"):
        octaves = np.log2(np.abs(apart)) + 1.0
    surety = np.clip(_AT_ONE + octaves / _OCTAVES, _LEAST, _MOST)
    chance = expit(np.sign(apart) * surety)
    return np.stack([1.0 - chance, chance], axis=1), np.full((target.size, 2), 0.5)


def nearness(labels: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how near predictions come to labels, in [0, 1], shape (records,).

    1/2 at a distance of 1, more by 1/128 with each halving: of means of it a difference can be
    seen, whatever the unit and however few far misses (`known_labels`).

    Args:
        labels: shape (records,), finite.
        predicted: shape (records,), finite.
    """
    check_numbers(labels, predicted)
    with np.errstate(divide="ignore"):
        octaves = np.log2(np.abs(labels / 2.0 - predicted / 2.0)) + 1.0
    return np.clip(0.5 - octaves / 128.0, 0.0, 1.0)


def check_numbers(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    """Raise `InvalidInputError` unless both are finite and of the same shape, (records,)."""
    if one.shape != other.shape or one.ndim != 1:
        rule = f"there is one prediction per label, so their shape is {one.shape}"
        raise InvalidInputError("shape of the proxy", other.shape, rule)
    for values in (one, other):
        if not np.isfinite(values).all():
            worst = float(values[~np.isfinite(values)][0])
            raise InvalidInputError("number", worst, "labels and predictions are finite")

"""Fidelity of two models' probabilities to labels that neither saw: log-loss, reliability."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from privcore.attacks.counts import Counts
from privcore.attacks.odds import FLOOR
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels, check_pair

TENTHS = 10
"""Tenths of the predicted probability."""

_STEP = 2.0**-24  # sums of 10^10 records stay below 2^63


@dataclass(frozen=True, slots=True, eq=False)
class FidelityTally(Counts):
    """Sums over records; it adds to the bit, as sums are whole multiples of 2^-24.

    Row 0 of every array is the target, row 1 the proxy.

    Args:
        records: how many labels were predicted.
        log_loss: shape (2,), sums of the negative logarithm of the label's probability, in nats.
        predictions: shape (2, TENTHS), predictions in each tenth.
        predicted: shape (2, TENTHS), sums of their probabilities.
        observed: shape (2, TENTHS), how many came true.
        right: shape (2,), records whose most probable class was their label.
    """

    records: int
    log_loss: NDArray[np.int64]
    predictions: NDArray[np.int64]
    predicted: NDArray[np.int64]
    observed: NDArray[np.int64]
    right: NDArray[np.int64]

    @classmethod
    def zero(cls) -> "FidelityTally":
        """Return the tally of no records, the identity of addition."""
        table = np.zeros((2, TENTHS), dtype=np.int64)
        none = np.zeros(2, dtype=np.int64)
        return cls(0, none, table, table, table, none)

    def mean_log_loss(self) -> NDArray[np.float64]:
        """Return the mean log-loss of target and proxy in nats, shape (2,)."""
        if self.records == 0:
            raise InvalidInputError("records", 0, "a mean is over at least one record")
        return self.log_loss * _STEP / self.records

    def reliability(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean prediction and the observed share of each tenth, both (2, TENTHS).

        NaN where nothing was predicted.
        """
        with np.errstate(invalid="ignore"):
            return (
                self.predicted * _STEP / self.predictions,
                self.observed / self.predictions.astype(np.float64),
            )


def fidelity(
    target: NDArray[np.float64], proxy: NDArray[np.float64], labels: NDArray[np.integer]
) -> FidelityTally:
    """Count how two models' probabilities of the labels turned out.

    With two classes, the predictions are those of the last class (the other's mirror them); with
    more, those of every class.

    Args:
        target: shape (records, classes), the audited model's probabilities.
        proxy: shape (records, classes), the proxy's.
        labels: shape (records,), class indices from 0.
    """
    target, proxy = check_pair(target, proxy)
    check_labels(labels, target.shape)
    log_loss = np.zeros(2, dtype=np.int64)
    predictions, predicted, observed = np.zeros((3, 2, TENTHS), dtype=np.int64)
    for model, probabilities in enumerate((target, proxy)):
        log_loss[model] = _add(
            probabilities,
            labels.astype(np.int64, copy=False),
            predictions[model],
            predicted[model],
            observed[model],
        )
    right = [np.count_nonzero(each.argmax(axis=1) == labels) for each in (target, proxy)]
    tables = (predictions, predicted, observed)
    return FidelityTally(int(labels.size), log_loss, *tables, np.array(right, dtype=np.int64))


@njit(cache=True, nogil=True)
def _add(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    predictions: NDArray[np.int64],
    predicted: NDArray[np.int64],
    observed: NDArray[np.int64],
) -> int:
    """Add one model's predictions to the tables; return its log-loss in steps.

    Sums are of integers: those of floating-point numbers would depend on their order.
    """
    losses = 0
    classes = probabilities.shape[1]
    for i in range(labels.size):
        losses += int(np.rint(-math.log(max(probabilities[i, labels[i]], FLOOR)) / _STEP))
        for label in range(1 if classes == 2 else 0, classes):
            shown = probabilities[i, label]
            place = min(int(shown * TENTHS), TENTHS - 1)
            predictions[place] += 1
            predicted[place] += int(np.rint(shown / _STEP))
            observed[place] += int(labels[i] == label)
    return losses


_SEEN, _EXPECTED = 3.0, 6.0
"""Standard errors that must be seen, and that calibrated predictions would have shown."""


def predictions_miss_labels(records: ArrayLike, predicted: ArrayLike, observed: ArrayLike) -> bool:
    """Return whether predictions that differ much do not follow the labels.

    Labels of which the model knows nothing come true at the same rate in each tenth. The sum over
    tenths of records times (predicted - mean) times (observed - mean) is then 0 within its standard
    error, by the central limit theorem. For a calibrated model it is the predictions' variance.

    Args:
        records: shape (tenths,), predictions in each tenth on records that training did not see.
        predicted: shape (tenths,), their mean probability.
        observed: shape (tenths,), the share that came true.

    Returns:
        True where calibrated predictions would have shown at least 6 standard errors, and less than
        3 are seen. False where the predictions differ too little to say it (labels that are rare).

    *Does not say* why: another column than the model was trained on, or a model that learned noise.

    >>> predictions_miss_labels([500, 500], [0.1, 0.9], [0.5, 0.5])
    True
    >>> predictions_miss_labels([500, 500], [0.1, 0.9], [0.4, 0.6])
    False
    """
    n, p, o = (np.asarray(each, dtype=np.float64) for each in (records, predicted, observed))
    if n.size == 0 or n.sum() <= 0.0:
        return False
    rate = float(n @ o / n.sum())
    apart = p - n @ p / n.sum()
    spread = float(n @ apart**2)
    error = math.sqrt(rate * (1.0 - rate) * spread)
    if error == 0.0 or spread / error < _EXPECTED:
        return False
    return float(n @ (apart * (o - rate))) / error < _SEEN

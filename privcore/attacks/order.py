"""Records in the order of what a proxy predicts, where it is undecided about their labels.

A proxy that gives classes no probabilities cannot say which records are alike. Its predictions can:
those of about the same *place* among all are matched, whatever the numbers' unit or scale.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.number_labels import check_numbers
from privcore.attacks.odds import PLACES


@dataclass(frozen=True, slots=True, eq=False)
class RankedPredictions:
    """Substitute for a proxy's probabilities where it is undecided about every record.

    Args:
        near: shape (records,), how near it came to each label, in [0, 1] (`nearness`).
        order: shape (records,), the place of its prediction among all, from 0 (`places`).
    """

    near: NDArray[np.float64]
    order: NDArray[np.int64]

    def of(self, rows: NDArray[np.integer]) -> "RankedPredictions":
        """Return what stands for some of the records."""
        return RankedPredictions(self.near[rows], self.order[rows])


def borders(predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what separates the places of an order: quantiles of some predictions.

    Args:
        predicted: shape (some records,), the proxy's; finite. Any sample is valid, since no label
            is looked at; one of other predictions than those that play matches them coarsely.

    Returns:
        Shape (PLACES - 1,), ascending, not all different; zeros where nothing was predicted.
    """
    check_numbers(predicted, predicted)
    if not predicted.size:
        return np.zeros(PLACES - 1)
    # One of them each, never a number in between: an infinite difference has none.
    wanted = np.arange(1, PLACES) / PLACES
    return np.asarray(np.quantile(predicted, wanted, method="inverted_cdf"), dtype=np.float64)


def places(predicted: NDArray[np.float64], borders: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of each prediction, from 0 to `PLACES` - 1; shape (records,).

    Args:
        predicted: shape (records,), the proxy's; finite.
        borders: shape (PLACES - 1,), as `borders` returns them.
    """
    check_numbers(predicted, predicted)
    return np.searchsorted(borders, predicted, side="left").astype(np.int64)

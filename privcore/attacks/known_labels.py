"""Test of whether a model knows the labels of one of two sets of records, by their probability.

A proxy that never saw a day's labels holds those of training and of holdout records equally
probable, up to chance, where the holdout was drawn at random. One that was trained on them does
not, and its knowledge would be taken for the target's: matching cannot correct that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.counts import Counts
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_labels

PROXY_ADVANTAGE = 3.0
"""Standard errors by which a proxy may fit training labels better than the holdout's; by chance
more is seen in one of 740 audits."""
_FITS_BETTER = 5.0
"""Standard errors by which another order of the classes fits the labels better."""
_MOST_CLASSES = 50
_SMALLEST = 1e-6
_STEP = 2.0**-24  # whole multiples add to the bit


@dataclass(frozen=True, slots=True)
class LabelFit(Counts):
    """Sums over records of the probability of the label; it adds to the bit.

    Args:
        records: how many.
        total: sum of the probabilities of the labels, in steps of 2^-24.
        squares: sum of their squares, in steps of 2^-24.
    """

    records: int = 0
    total: int = 0
    squares: int = 0

    @property
    def mean(self) -> float:
        """The mean probability of a label, in [0, 1]; NaN of no records."""
        return self.total * _STEP / self.records if self.records else math.nan

    @property
    def variance(self) -> float:
        """The variance of the mean; NaN of no records."""
        if not self.records:
            return math.nan
        spread = max(self.squares * _STEP / self.records - self.mean**2, 0.0)
        return spread / self.records


def label_fit(predicted: NDArray[np.float64], labels: NDArray[np.integer]) -> LabelFit:
    """Return how probable a model held some records' labels.

    Args:
        predicted: shape (records, classes), its probabilities.
        labels: shape (records,), class indices from 0.
    """
    check_labels(labels, predicted.shape)
    return fit_of(predicted[np.arange(labels.size), labels])


def fit_of(held: NDArray[np.float64]) -> LabelFit:
    """Return the fit of some records, given how well each label was held.

    Args:
        held: shape (records,), in [0, 1]: probabilities of labels.
    """
    if held.size and not (held.min() >= 0.0 and held.max() <= 1.0):
        raise InvalidInputError("predicted", float(held.max()), "a probability lies in [0, 1]")

    def steps(values: NDArray[np.float64]) -> int:
        return int(np.rint(values / _STEP).astype(np.int64).sum())

    return LabelFit(int(held.size), steps(held), steps(held * held))


def advantage(strata: Sequence[tuple[LabelFit, LabelFit]]) -> float:
    """Return by how many standard errors labels of training records fit better than the holdout's.

    Under independent records that only chance divided it is approximately standard normal, whatever
    the model. It says nothing where the two sides differ for another reason. Without records on
    either side it is 0.

    Args:
        strata: of training and of control records that compare with one another; each stratum
            counts by how many it has of both (n1 n2 / (n1 + n2)).
    """
    difference = variance = 0.0
    for training, control in strata:
        if training.records and control.records:
            weight = training.records * control.records / (training.records + control.records)
            difference += weight * (training.mean - control.mean)
            variance += weight**2 * (training.variance + control.variance)
    if variance == 0.0:
        return 0.0 if difference == 0.0 else math.copysign(math.inf, difference)
    return difference / math.sqrt(variance)


def proxy_sentence(fits: Sequence[tuple[LabelFit, LabelFit]], whose: str) -> str:
    """Say that the proxy knows training labels; "" where it does not.

    What it knows would be taken for the target's. So does a target that was given as the proxy.

    Args:
        fits: as `advantage` takes them.
        whose: the labels that the proxy knows.
    """
    found = advantage(fits)
    if found <= PROXY_ADVANTAGE:
        return ""
    training, control = (sum(side, start=LabelFit()) for side in zip(*fits, strict=True))
    return (
        f"The earlier model knows labels of {whose}: it gives those of training records the mean "
        f"probability {training.mean:.4f}, those of holdout records {control.mean:.4f}, "
        f"{found:.1f} standard errors apart. It must be a model that was trained before these "
        "labels: see that both models are not swapped, and hold records out at random."
    )


def better_order(
    predicted: NDArray[np.float64], labels: NDArray[np.integer]
) -> tuple[int, ...] | None:
    """Return the class that each column of probabilities fits, if that is not its own.

    Args:
        predicted: shape (records, classes), probabilities.
        labels: shape (records,), class indices from 0.

    *Does not say* that the order is right where it is None: few labels, or a model that knows none.
    """
    classes = predicted.shape[1]
    if classes > _MOST_CLASSES:
        return None
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # few audits are of tables

    held = np.log(np.maximum(predicted, _SMALLEST))
    fit = np.zeros((classes, classes))
    np.add.at(fit, labels, held)
    columns = linear_sum_assignment(fit, maximize=True)[1]  # of each class
    gain = held[np.arange(labels.size), columns[labels]] - held[np.arange(labels.size), labels]
    error = gain.std() / math.sqrt(gain.size)
    if not gain.mean() > _FITS_BETTER * error > 0.0:
        return None
    return tuple(int(each) for each in np.argsort(columns))


def exchanged_words(roles: Sequence[str], classes: Sequence[str]) -> str:
    """Return that probabilities fit the labels in another order, up to the advice that follows.

    Args:
        roles: whose: "target's", "proxy's" or both.
        classes: in the order that fits.
    """
    whose = " and the ".join(roles).replace("proxy", "earlier model")
    return (
        f"The {whose} probabilities fit the labels far better if their classes are in the order "
        f"{', '.join(classes)}: "
    )

"""Correction of privatised labels' probabilities to those of true ones: an inverted flip matrix."""

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_prior
from privcore.mechanisms.randomized_response import RandomizedResponse

_LARGEST_CONDITION = 1e12


def uncorrected_inverse(
    probabilities: NDArray[np.float64], flip: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the true labels' probabilities, unbiased and possibly outside [0, 1].

    If labels with probabilities p become answers by the flip matrix F, the answers have
    probabilities p F; this is `probabilities` times the inverse of F. It is linear, so an unbiased
    estimate of the answers' probabilities stays one of the labels'.

    Args:
        probabilities: shape (records, classes), of the private labels; each row sums to 1.
        flip: shape (classes, classes), probability of each answer (column) given each label (row).

    Raises:
        InvalidInputError: shapes that differ, rows that do not sum to 1, or a flip matrix that
            cannot be inverted (answers that do not depend on the label).
    """
    classes = len(flip)
    check_prior(flip, shape=(classes, classes))
    check_prior(probabilities, shape=(len(probabilities), classes))
    if np.linalg.cond(flip) > _LARGEST_CONDITION:
        rule = "answers that hardly depend on the label cannot be corrected"
        raise InvalidInputError("flip", flip.tolist(), rule)
    return np.asarray(np.linalg.solve(flip.T, probabilities.T).T, dtype=np.float64)


def correct_probabilities(
    probabilities: NDArray[np.float64], flip: NDArray[np.float64], *, floor: float = 0.0
) -> NDArray[np.float64]:
    """Return the true labels' probabilities: inverted, clipped to [floor, 1] and renormalised.

    LP-1ST with noise correction. Only where nothing is clipped is it unbiased; clipping pulls
    small probabilities up and so errs upwards there. With `floor` 0 a label that is ruled out
    costs an infinite log-loss where it happens after all. Arguments and errors as
    `uncorrected_inverse`.

    Args:
        probabilities: shape (records, classes).
        flip: shape (classes, classes).
        floor: the least probability before renormalising, at least 0 and below 1/classes.
    """
    if not 0.0 <= floor < 1.0 / len(flip):
        raise InvalidInputError("floor", floor, f"it lies in [0, {1.0 / len(flip):g})")
    clipped = np.clip(uncorrected_inverse(probabilities, flip), floor, 1.0)
    totals: NDArray[np.float64] = clipped.sum(axis=1, keepdims=True)
    return clipped / totals


def measure_prior(
    labels: NDArray[np.int64], mechanism: RandomizedResponse, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return an estimate of the classes' shares, shape (classes,), that costs `mechanism`.

    Every label answers by randomized response; the answers' shares are corrected. This is the
    domain prior: what follows from it costs nothing more, but other uses of the labels compose
    with it.
    """
    if labels.size == 0:
        raise InvalidInputError("labels", (0,), "a prior is measured on at least 1 label")
    answers = mechanism.sample(labels, random)
    shares = np.bincount(answers, minlength=mechanism.classes) / labels.size
    prior: NDArray[np.float64] = correct_probabilities(shares[None, :], mechanism.distribution())[0]
    return prior

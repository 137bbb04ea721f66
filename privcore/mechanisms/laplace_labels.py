"""ALIBI: Laplace noise on the one-hot label, and what Bayes makes of it."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privcore.guarantees import PureDP
from privcore.mechanisms.parameter_checks import (
    check_classes,
    check_labels,
    check_parameter,
    check_prior,
)


@dataclass(frozen=True, slots=True)
class LaplaceOneHot:
    """Laplace noise of one standard deviation on every entry of a one-hot label.

    Malek, Mironov, Prasad, Shilov and Tramer 2021 (arXiv:2106.03408), ALIBI. Replacing a label
    moves two entries by 1, so epsilon = 2 / scale = 2 sqrt(2) / deviation: pure epsilon-DP for
    replacing the label. The noisy vectors are drawn once; every posterior, soft label and model
    that follows is post-processing, however often it is repeated. A deviation of 0 is no noise
    (epsilon infinite).

    Raises:
        InvalidInputError: a deviation below 0, or fewer than two classes.

    >>> mechanism = LaplaceOneHot(deviation=2.0, classes=2)
    >>> round(mechanism.guarantee.epsilon, 3)
    1.414
    """

    deviation: float
    classes: int

    def __post_init__(self) -> None:
        if self.deviation != 0.0:
            check_parameter("deviation", self.deviation)
        check_classes(self.classes)

    @classmethod
    def from_epsilon(cls, epsilon: float, classes: int) -> Self:
        """Return the mechanism with this epsilon; infinity is no noise.

        Raises:
            InvalidInputError: epsilon is not above 0.
        """
        check_parameter("epsilon", epsilon)
        return cls(2.0 * math.sqrt(2.0) / epsilon, classes)

    @property
    def scale(self) -> float:
        """The Laplace distribution's scale."""
        return self.deviation / math.sqrt(2.0)

    @property
    def guarantee(self) -> PureDP:
        """The guarantee for replacing one label."""
        return PureDP(2.0 / self.scale if self.deviation else math.inf)

    @property
    def manifest_entry(self) -> dict[str, Any] | None:
        """Entry of a manifest for it; None where nothing was made private."""
        if not self.deviation:
            return None
        return {"name": "laplace_one_hot", "parameters": {"deviation": self.deviation}}

    def log_density(self, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-density of each noisy vector under each label, shape (records, classes).

        Without noise it is 0 where the vector is the label's one-hot vector, else minus infinity.
        """
        hot = np.eye(self.classes)
        distance = np.abs(noisy[:, None, :] - hot[None, :, :]).sum(axis=2)
        if not self.deviation:
            return np.where(distance == 0.0, 0.0, -np.inf)
        density: NDArray[np.float64] = -distance / self.scale - self.classes * math.log(
            2.0 * self.scale
        )
        return density

    def sample(self, labels: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float64]:
        """Return one noisy vector per label, shape (records, classes).

        Raises:
            InvalidInputError: a label outside 0 to classes - 1.
        """
        check_labels(labels, (labels.size, self.classes))
        hot = np.eye(self.classes)[labels]
        noise = random.laplace(0.0, self.scale, hot.shape) if self.deviation else 0.0
        noisy: NDArray[np.float64] = hot + noise
        return noisy

    def posterior(
        self, noisy: NDArray[np.float64], prior: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the probability of each label given its noisy vector: the soft labels.

        Args:
            noisy: shape (records, classes), from `sample`.
            prior: shape (records, classes), of the current model; it saw no label but through
                the noisy vectors.

        Raises:
            InvalidInputError: a prior of another shape, negative, or that does not sum to 1.
        """
        check_prior(prior, shape=noisy.shape)
        # Not quite 0: a model may hold the true label impossible, but Bayes' rule needs one left.
        joint = np.log(np.maximum(prior, 1e-12)) + self.log_density(noisy)
        soft: NDArray[np.float64] = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return soft


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCopies:
    """Soft labels for a learner that takes only hard ones: copies of records, with weights.

    Attributes:
        rows: shape (copies,), which record is copied.
        labels: shape (copies,), the copy's class.
        weights: shape (copies,), above 0; a record's copies weigh 1 together.
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]


def weighted_copies(soft: NDArray[np.float64]) -> WeightedCopies:
    """Return one copy of each record for each class that its soft label holds possible.

    The weighted log-loss of the copies is the cross-entropy to the soft labels, exactly.

    Raises:
        InvalidInputError: soft labels that are negative or do not sum to 1.
    """
    check_prior(soft, shape=soft.shape)
    rows, labels = np.nonzero(soft)
    return WeightedCopies(rows, labels, soft[rows, labels])

"""Randomized response over K classes (Warner 1965; Kairouz, Oh and Viswanath 2016)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees import PureDP
from privcore.mechanisms.parameter_checks import check_classes, check_labels, pure_entry


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Keep a label with probability e^epsilon / (e^epsilon + K - 1), else answer another class.

    Every other class is equally likely, so the output's probabilities under two labels differ by
    a factor of at most e^epsilon: pure epsilon-DP for replacing the label. An infinite epsilon
    keeps every label.

    Raises:
        InvalidInputError: epsilon is not above 0, or there are fewer than two classes.

    >>> import numpy as np
    >>> mechanism = RandomizedResponse(epsilon=2.0, classes=2)
    >>> round(mechanism.keep_probability, 3)
    0.881
    >>> noisy = mechanism.sample(np.array([0, 1, 1]), np.random.default_rng(0))
    >>> noisy.shape
    (3,)
    """

    epsilon: float
    classes: int

    def __post_init__(self) -> None:
        if not self.epsilon > 0.0:
            raise InvalidInputError(
                "epsilon", self.epsilon, "randomized response needs epsilon > 0"
            )
        check_classes(self.classes)

    @property
    def keep_probability(self) -> float:
        """Probability that the answer is the label."""
        return 1.0 / (1.0 + (self.classes - 1) * math.exp(-self.epsilon))

    @property
    def guarantee(self) -> PureDP:
        """The guarantee for replacing one label."""
        return PureDP(self.epsilon)

    @property
    def manifest_entry(self) -> dict[str, Any] | None:
        """Entry of a manifest for it; None where nothing was made private."""
        return pure_entry("randomized_response", self.epsilon, classes=self.classes)

    def distribution(self) -> NDArray[np.float64]:
        """Return the probability of each answer (column) given each label (row)."""
        other = (1.0 - self.keep_probability) / (self.classes - 1)
        matrix = np.full((self.classes, self.classes), other)
        np.fill_diagonal(matrix, self.keep_probability)
        return matrix

    def sample(self, labels: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        """Return one answer per label; both have shape (records,).

        Raises:
            InvalidInputError: a label outside 0 to classes - 1.
        """
        check_labels(labels, self.classes)
        keep = random.random(labels.shape) < self.keep_probability
        step = random.integers(1, self.classes, labels.shape)
        return np.where(keep, labels, (labels + step) % self.classes)

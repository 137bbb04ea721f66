"""ALIBI: Laplace noise on the one-hot label."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privcore.mechanisms.parameter_checks import check_classes, check_labels, check_parameter


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
    >>> round(mechanism.scale, 3)
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

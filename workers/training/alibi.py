"""ALIBI: noisy one-hot labels, and models that sharpen each other's reading of them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import LaplaceOneHot
from workers.executors import Executor
from workers.training.learner import Learner, TrainingData
from workers.training.method import TrainedModel


@dataclass(frozen=True, slots=True)
class Alibi:
    """Malek et al. 2021 (arXiv:2106.03408): Laplace noise once, Bayesian posteriors many times.

    In each round the posterior of every noisy label under the current model's prior (uniform at
    first) is the soft label on which the next model is trained. The noise is drawn once, so rounds
    cost nothing.

    Attributes:
        epsilon: 2 sqrt(2) over the noise's standard deviation; infinity is no noise.
        rounds: how many models are trained after each other.

    Raises:
        InvalidInputError: epsilon is not above 0, or no round.
    """

    epsilon: float
    rounds: int = 2

    def __post_init__(self) -> None:
        LaplaceOneHot.from_epsilon(self.epsilon, 2)
        if self.rounds < 1:
            raise InvalidInputError("rounds", self.rounds, "ALIBI trains at least 1 round")

    delta: ClassVar[float] = 0.0  # laplace noise needs none

    def manifest_entry(self, classes: int) -> dict[str, Any] | None:
        """Return the mechanism's name and parameters for a manifest; None without noise."""
        return LaplaceOneHot.from_epsilon(self.epsilon, classes).manifest_entry

    def fit(
        self,
        data: TrainingData,
        learner: Learner,
        *,
        random: np.random.Generator,
        executor: Executor,  # noqa: ARG002  # rounds follow each other
    ) -> TrainedModel:
        """Return the last round's model."""
        mechanism = LaplaceOneHot.from_epsilon(self.epsilon, learner.classes)
        noisy = mechanism.sample(data.labels, random)
        prior = np.full(noisy.shape, 1.0 / learner.classes)
        for _ in range(self.rounds - 1):
            model = learner.fit_soft(data.features, mechanism.posterior(noisy, prior))
            prior = learner.predict(model, data.features)
        return TrainedModel(learner.fit_soft(data.features, mechanism.posterior(noisy, prior)))

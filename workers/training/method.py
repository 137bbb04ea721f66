"""Interface of every label-private way to train a model."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from workers.executors import Executor
from workers.lake.manifest import OutputCorrection
from workers.training.learner import Learner, TrainingData


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """Result of training.

    Attributes:
        fitted: the CatBoost model.
        output_correction: what its manifest says is done to its probabilities; None is nothing.
    """

    fitted: Any
    output_correction: OutputCorrection | None = None


class Method(Protocol):
    """A label-private way to train: frozen, small, checked when it is made."""

    @property
    def epsilon(self) -> float:
        """Cost of replacing one label, at `delta`; infinity is the same without noise."""

    @property
    def delta(self) -> float:
        """The guarantee's delta."""

    def manifest_entry(self, classes: int) -> dict[str, Any] | None:
        """Return the mechanism's name and parameters for a manifest; None without noise."""

    def fit(
        self,
        data: TrainingData,
        learner: Learner,
        *,
        random: np.random.Generator,
        executor: Executor,
    ) -> TrainedModel:
        """Return a model that saw the labels through the mechanism alone."""

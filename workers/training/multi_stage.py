"""LP-1ST, LP-2ST, LP-MST: randomized response in stages; earlier ones are the next one's prior."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    RandomizedResponse,
    RandomizedResponseWithPrior,
    disjoint_parts,
    measure_prior,
)
from privcore.mechanisms.parameter_checks import check_prior
from workers.executors import Executor
from workers.lake.manifest import OutputCorrection
from workers.training.learner import Learner, TrainingData
from workers.training.method import TrainedModel

MEASURED: Literal["measured"] = "measured"
_PRIOR_SHARE = 0.05
_FLOOR = 0.01  # docs/evidence/studies.md says how it was chosen


@dataclass(frozen=True, slots=True)
class MultiStage:
    """Ghazi et al. 2021 (arXiv:2102.06062), Algorithm 4, and its one-stage variants.

    Records fall into disjoint stages at random. The first stage's labels answer by randomized
    response, or by RRWithPrior where a domain prior is given or measured; each later stage's by
    RRWithPrior, whose prior is the model trained on all earlier stages' private labels. The last
    model is trained on all private labels. Each label is used in one stage, so the whole is
    epsilon-DP for replacing a label. Stages follow each other by their nature; what runs in
    parallel is one model beside another.

    Attributes:
        epsilon: the whole budget; infinity keeps every label.
        stages: 1 is LP-1ST, 2 LP-2ST, and so on.
        prior: of the first stage: None is uniform, `MEASURED` is measured on all labels by
            randomized response with 0.05 of the budget (the stages get the rest), and numbers are
            class probabilities from outside, in the order of the classes. Those cost nothing, as
            long as they do not depend on these labels: a prior computed from the labels
            themselves voids the guarantee.
        noise_correction: with one stage and a uniform prior: the checkpoint's manifest names the
            inverse of the flip matrix, and a caller of the model gets corrected probabilities.
            It depends on no label, so it costs nothing.
        floor: the least probability that noise correction leaves; 0 clips to [0, 1], as the code
            of Wu et al. 2023 does, and makes a class that was ruled out infinitely surprising.

    Raises:
        InvalidInputError: epsilon is not above 0, there is no stage, a prior does not sum to 1, or
            noise correction is asked for where labels are not flipped by one known matrix.
    """

    epsilon: float
    stages: int = 1
    prior: tuple[float, ...] | Literal["measured"] | None = None
    noise_correction: bool = False
    floor: float = _FLOOR

    def __post_init__(self) -> None:
        RandomizedResponse(self.epsilon, 2)
        if self.stages < 1:
            raise InvalidInputError("stages", self.stages, "training has at least 1 stage")
        if self._outside is not None:
            check_prior(np.array(self._outside), shape=(len(self._outside),))
        if self.noise_correction and (self.stages > 1 or self.prior is not None):
            rule = "one known flip matrix is needed: one stage with a uniform prior"
            raise InvalidInputError("noise_correction", self.noise_correction, rule)

    delta: ClassVar[float] = 0.0  # randomized response needs none

    @property
    def stage_epsilon(self) -> float:
        """Epsilon that is left for the stages."""
        return self.epsilon * ((1.0 - _PRIOR_SHARE) if self.prior == MEASURED else 1.0)

    def manifest_entry(self, classes: int) -> dict[str, Any] | None:
        """Return the mechanism's name and parameters for a manifest; None without noise."""
        if self.stages == 1 and self.prior is None:
            return RandomizedResponse(self.epsilon, classes).manifest_entry
        stages = RandomizedResponseWithPrior(self.stage_epsilon, classes).manifest_entry
        if stages is None:
            return None
        if self._outside is not None:
            stages["parameters"]["prior_from_outside"] = list(self._outside)
        if self.prior != MEASURED:
            return stages
        measured = RandomizedResponse(_PRIOR_SHARE * self.epsilon, classes).manifest_entry
        return {"name": "composition", "parameters": {"mechanisms": [measured, stages]}}

    def fit(
        self,
        data: TrainingData,
        learner: Learner,
        *,
        random: np.random.Generator,
        executor: Executor,  # noqa: ARG002  # stages follow each other
    ) -> TrainedModel:
        """Return the last stage's model.

        Raises:
            InvalidInputError: more stages than records, or a prior that does not fit the classes.
        """
        if self._outside is not None and len(self._outside) != learner.classes:
            rule = f"it holds one probability for each of the {learner.classes} classes"
            raise InvalidInputError("prior", self._outside, rule)
        private, parts = np.full(data.records, -1), self._parts(data.records, random)
        first = self._first_prior(data.labels, learner.classes, random)
        seen = parts[0]
        private[seen] = self._first_answers(data.labels[seen], first, learner.classes, random)
        for part in parts[1:]:
            earlier = learner.fit(data.features[seen], private[seen])
            prior = learner.predict(earlier, data.features[part])
            response = RandomizedResponseWithPrior(self.stage_epsilon, learner.classes)
            private[part] = response.sample(data.labels[part], prior, random)
            seen = np.sort(np.concatenate([seen, part]))
        model = learner.fit(data.features, private)
        if self.noise_correction and not math.isinf(self.epsilon):
            return TrainedModel(model, output_correction=self._correction)
        return TrainedModel(model)

    @property
    def _correction(self) -> OutputCorrection:
        return OutputCorrection(name="noise_correction", epsilon=self.epsilon, floor=self.floor)

    @property
    def _outside(self) -> tuple[float, ...] | None:
        """The prior, where it came from outside."""
        return self.prior if isinstance(self.prior, tuple) else None

    def _parts(self, records: int, random: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
        if self.stages == 1:
            return (np.arange(records),)
        return disjoint_parts(records, self.stages, random)

    def _first_prior(
        self, labels: NDArray[np.int64], classes: int, random: np.random.Generator
    ) -> NDArray[np.float64] | None:
        if self.prior == MEASURED:
            response = RandomizedResponse(_PRIOR_SHARE * self.epsilon, classes)
            return measure_prior(labels, response, random)
        return None if self._outside is None else np.array(self._outside)

    def _first_answers(
        self,
        labels: NDArray[np.int64],
        prior: NDArray[np.float64] | None,
        classes: int,
        random: np.random.Generator,
    ) -> NDArray[np.int64]:
        if prior is None:
            return RandomizedResponse(self.stage_epsilon, classes).sample(labels, random)
        response = RandomizedResponseWithPrior(self.stage_epsilon, classes)
        return response.sample(labels, np.tile(prior, (len(labels), 1)), random)

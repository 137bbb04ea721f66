"""Label-private ways to train CatBoost: LP-1ST to LP-MST, and PATE."""

import math
from dataclasses import dataclass, field
from typing import Any

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    NoisyMax,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    count_votes,
    disjoint_parts,
    measure_prior,
)
from privcore.mechanisms.noisy_max import draw_classes
from privcore.mechanisms.parameter_checks import check_labels
from workers.lake.manifest import Feature, LabelColumn, OutputCorrection


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The day's training rows.

    Attributes:
        features: one row per record, numeric as Float32, categorical as String without nulls.
        labels: shape (records,), class indices: what a method makes private.
    """

    features: pl.DataFrame
    labels: NDArray[np.int64]

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """Trains models of one shape; it travels to the workers.

    Attributes:
        label: its classes are the model's, also those that no label has.
        parameters: of CatBoost, beyond what is set here.
        validation: rows whose labels choose how many trees a model keeps: those up to the best
            log-loss on them. None keeps all. No mechanism protects these labels.
    """

    label: LabelColumn
    features: tuple[Feature, ...]
    seed: int
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: TrainingData | None = None

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.label.classes)

    def fit(self, features: pl.DataFrame, labels: NDArray[np.int64]) -> Any:
        """Return a model trained on labels, shape (records,), even if all are the same.

        Raises:
            InvalidInputError: a label outside the classes, or CatBoost cannot train on these
                features or with these parameters.
        """
        check_labels(labels, (labels.size, self.classes))
        model = catboost.CatBoostClassifier(
            random_seed=self.seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
            allow_const_label=True,
            loss_function="Logloss" if self.classes == 2 else "MultiClass",
            class_names=list(self.label.classes),
            **self.parameters,
        )
        kept = self.validation
        try:
            model.fit(
                self._pool(features, labels),
                eval_set=self._pool(kept.features, kept.labels) if kept else None,
            )
        except catboost.CatBoostError as error:
            rule = f"CatBoost cannot train on them: {error}"
            raise InvalidInputError("features", features.columns, rule) from None
        return model

    def _pool(self, features: pl.DataFrame, labels: NDArray[np.int64]) -> catboost.Pool:
        names = [feature.name for feature in self.features if feature.kind == "categorical"]
        given = np.array(self.label.classes)[labels]
        return catboost.Pool(features, label=given, cat_features=names)

    def predict(self, model: Any, features: pl.DataFrame) -> NDArray[np.float64]:
        """Return the model's probabilities, shape (records, classes)."""
        chances: NDArray[np.float64] = model.predict_proba(features, thread_count=1)
        return chances


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """Result of training, and what its manifest says is done to its probabilities."""

    fitted: Any
    output_correction: OutputCorrection | None = None


_PRIOR_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class MultiStage:
    """Ghazi et al. 2021 (arXiv:2102.06062), Algorithm 4, and its one-stage variants.

    Records fall into disjoint stages at random. The first stage's labels answer by randomized
    response, or by RRWithPrior where a domain prior is measured; each later stage's by RRWithPrior,
    whose prior is the model trained on all earlier stages' private labels. The last model is
    trained on all private labels. Each label is used in one stage, so the whole is epsilon-DP for
    replacing a label.

    Attributes:
        epsilon: the whole budget; infinity keeps every label.
        stages: 1 is LP-1ST, 2 LP-2ST, and so on.
        measured_prior: whether the first stage's prior is measured on all labels, by randomized
            response with 0.05 of the budget; the stages get the rest. Otherwise it is uniform.
        noise_correction: with one stage and a uniform prior: the checkpoint's manifest names the
            inverse of the flip matrix, and a caller of the model gets corrected probabilities,
            clipped to [0, 1] as the code of Wu et al. 2023 does. It depends on no label, so it
            costs nothing.

    Raises:
        InvalidInputError: epsilon is not above 0, there is no stage, or noise correction is asked
            for where labels are not flipped by one known matrix.
    """

    epsilon: float
    stages: int = 1
    measured_prior: bool = False
    noise_correction: bool = False

    def __post_init__(self) -> None:
        RandomizedResponse(self.epsilon, 2)
        if self.stages < 1:
            raise InvalidInputError("stages", self.stages, "training has at least 1 stage")
        if self.noise_correction and (self.stages > 1 or self.measured_prior):
            rule = "one known flip matrix is needed: one stage with a uniform prior"
            raise InvalidInputError("noise_correction", self.noise_correction, rule)

    def fit(
        self, data: TrainingData, learner: Learner, *, random: np.random.Generator
    ) -> TrainedModel:
        """Return the last stage's model, which saw the labels through the mechanism alone.

        Raises:
            InvalidInputError: more stages than records.
        """
        classes, epsilon, prior = learner.classes, self.epsilon, None
        parts: tuple[NDArray[np.int64], ...] = (np.arange(data.records),)
        if self.stages > 1:
            parts = disjoint_parts(data.records, self.stages, random)
        if self.measured_prior:
            measured = RandomizedResponse(_PRIOR_SHARE * self.epsilon, classes)
            prior = measure_prior(data.labels, measured, random)
            epsilon *= 1.0 - _PRIOR_SHARE
        response = RandomizedResponseWithPrior(epsilon, classes)
        private, seen = np.full(data.records, -1), parts[0]
        if prior is None:
            plain = RandomizedResponse(epsilon, classes)
            private[seen] = plain.sample(data.labels[seen], random)
        else:
            priors = np.tile(prior, (len(seen), 1))
            private[seen] = response.sample(data.labels[seen], priors, random)
        for part in parts[1:]:
            earlier = learner.fit(data.features[seen], private[seen])
            said = learner.predict(earlier, data.features[part])
            private[part] = response.sample(data.labels[part], said, random)
            seen = np.sort(np.concatenate([seen, part]))
        model = learner.fit(data.features, private)
        if self.noise_correction and not math.isinf(self.epsilon):
            correction = OutputCorrection(name="noise_correction", epsilon=self.epsilon, floor=0.0)
            return TrainedModel(model, correction)
        return TrainedModel(model)


@dataclass(frozen=True, slots=True)
class Pate:
    """Papernot et al. 2017 (arXiv:1610.05755), as the published code of Wu et al. 2023 runs it.

    Only labels are private here, so the unlabelled queries are some of the day's own records, whose
    labels are not used. The others fall into disjoint parts, one per teacher. Each teacher votes on
    every query for a class drawn from its probabilities, Laplace noise is added to the counts, and
    the student learns a class drawn in proportion to the noisy ones
    (`NoisyMax.sample_in_proportion`): of use where one class is rare and no majority ever votes for
    it. The epsilon does not depend on the data.

    Attributes:
        epsilon: of all answers together, at `delta`; infinity is no noise.
        teachers: on disjoint parts of the records.
        queries: how many answers the budget is spread over, and the student learns from.

    Raises:
        InvalidInputError: a value out of its range.
    """

    epsilon: float
    delta: float = 0.0
    teachers: int = 100
    queries: int = 200

    def __post_init__(self) -> None:
        if self.teachers < 1:
            raise InvalidInputError("teachers", self.teachers, "PATE has at least 1 teacher")
        self.mechanism()

    def mechanism(self) -> NoisyMax:
        """Return the aggregation."""
        return NoisyMax.from_epsilon(
            self.epsilon, noise="laplace", queries=self.queries, delta=self.delta
        )

    def vote(
        self, data: TrainingData, learner: Learner, *, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the queried records and the votes on them, shape (queries, classes).

        The votes are private: only `graduate` may use them.

        Raises:
            InvalidInputError: more teachers than records are left beside the queries.
        """
        shuffled = random.permutation(data.records)
        queried, rest = np.sort(shuffled[: self.queries]), shuffled[self.queries :]
        if len(queried) < self.queries:
            rule = f"there are only {data.records} records"
            raise InvalidInputError("queries", self.queries, rule)
        parts = [rest[part] for part in disjoint_parts(len(rest), self.teachers, random)]
        asked = data.features[queried]
        said = np.stack([teach(data, learner, part, asked) for part in parts])
        # In an order of their own, whatever the teachers' is.
        said = said[np.lexsort(said.reshape(len(said), -1).T)]
        drawn = draw_classes(said.reshape(-1, said.shape[2]), random)
        return queried, count_votes(drawn.reshape(said.shape[:2]), said.shape[2])

    def graduate(
        self,
        features: pl.DataFrame,
        votes: NDArray[np.float64],
        learner: Learner,
        *,
        random: np.random.Generator,
    ) -> TrainedModel:
        """Return the student that learns from the noisy answers to these votes."""
        answers = self.mechanism().sample_in_proportion(votes, random)
        return TrainedModel(learner.fit(features, answers))


def teach(
    data: TrainingData, learner: Learner, part: NDArray[np.int64], asked: pl.DataFrame
) -> NDArray[np.float64]:
    """Return what a teacher, trained on its part, says of the queries, (queries, classes)."""
    return learner.predict(learner.fit(data.features[part], data.labels[part]), asked)

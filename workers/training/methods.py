"""Label-private ways to train CatBoost: LP-1ST to LP-MST, PATE and ALIBI, by their names."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import catboost
import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    LaplaceOneHot,
    NoisyMax,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    count_votes,
    disjoint_parts,
    measure_prior,
    weighted_copies,
)
from privcore.mechanisms.noisy_max import Noise, draw_classes
from privcore.mechanisms.parameter_checks import check_labels, check_prior
from workers.executors import Executor
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
        features: in the model's order.
        seed: of CatBoost.
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

    def fit(
        self,
        features: pl.DataFrame,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> Any:
        """Return a model trained on hard labels, shape (records,), even if all are the same.

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
                self._pool(features, labels, weights),
                eval_set=self._pool(kept.features, kept.labels) if kept else None,
            )
        except catboost.CatBoostError as error:
            rule = f"CatBoost cannot train on them: {error}"
            raise InvalidInputError("features", features.columns, rule) from None
        return model

    def _pool(
        self,
        features: pl.DataFrame,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> catboost.Pool:
        names = [feature.name for feature in self.features if feature.kind == "categorical"]
        given = np.array(self.label.classes)[labels]
        return catboost.Pool(features, label=given, weight=weights, cat_features=names)

    def fit_soft(self, features: pl.DataFrame, soft: NDArray[np.float64]) -> Any:
        """Return a model trained on soft labels, shape (records, classes), by weighted copies."""
        copies = weighted_copies(soft)
        return self.fit(features[copies.rows], copies.labels, copies.weights)

    def predict(self, model: Any, features: pl.DataFrame) -> NDArray[np.float64]:
        """Return the model's probabilities, shape (records, classes)."""
        chances: NDArray[np.float64] = model.predict_proba(features, thread_count=1)
        return chances


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


Answers = Literal["maximum", "sample"]


@dataclass(frozen=True, slots=True)
class Classroom:
    """Inputs that all teachers share; Ray puts them once."""

    data: TrainingData
    learner: Learner
    queries: NDArray[np.int64]
    answers: Answers


@dataclass(frozen=True, slots=True)
class Pate:
    """Papernot et al. 2017 (arXiv:1610.05755) and 2018 (arXiv:1802.08908).

    Only labels are private here, so the unlabelled queries are some of the day's own records, whose
    labels are not used. The others fall into disjoint parts, one per teacher. Every teacher
    votes on every query, a noisy maximum answers it, and the student is trained on the answers
    alone. Declared is the data-independent epsilon.

    Attributes:
        epsilon: of all answers together, at `delta`; infinity is no noise.
        noise: `laplace` (delta 0) or `gaussian`.
        delta: of the guarantee; 0 or more with Laplace noise, above 0 with Gaussian.
        teachers: on disjoint parts of the records.
        queries: how many answers the budget is spread over, and the student learns from.
        answers: `maximum`, as in the papers: each teacher votes for one class, and the student
            learns the class with the most votes. `sample`, as in the published code of Wu et al.
            2023: each teacher votes for a class drawn from its probabilities, and the student
            learns a class drawn in proportion to the noisy counts. It costs the same
            (`NoisyMax.sample_in_proportion`), and is of use where one class is rare and no
            majority ever votes for it.

    Raises:
        InvalidInputError: a value out of its range.
    """

    epsilon: float
    noise: Noise = "gaussian"
    delta: float = 1e-5
    teachers: int = 100
    queries: int = 200
    answers: Answers = "maximum"

    def __post_init__(self) -> None:
        if self.teachers < 1:
            raise InvalidInputError("teachers", self.teachers, "PATE has at least 1 teacher")
        self.mechanism()

    def mechanism(self) -> NoisyMax:
        """Return the aggregation."""
        return NoisyMax.from_epsilon(
            self.epsilon, noise=self.noise, queries=self.queries, delta=self.delta
        )

    def manifest_entry(self, classes: int) -> dict[str, Any] | None:  # noqa: ARG002  # any number
        """Return the mechanism's name and parameters for a manifest; None without noise."""
        return self.mechanism().manifest_entry

    def fit(
        self,
        data: TrainingData,
        learner: Learner,
        *,
        random: np.random.Generator,
        executor: Executor,
    ) -> TrainedModel:
        """Return the student; `executor` trains the teachers in parallel.

        Raises:
            InvalidInputError: more teachers than records are left beside the queries.
        """
        queried, votes = self.vote(data, learner, random=random, executor=executor)
        return self.graduate(data.features[queried], votes, learner, random=random)

    def vote(
        self,
        data: TrainingData,
        learner: Learner,
        *,
        random: np.random.Generator,
        executor: Executor,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the queried records and the votes on them, shape (queries, classes).

        The votes are private: only `graduate` may use them.

        Raises:
            InvalidInputError: as `fit`.
        """
        shuffled = random.permutation(data.records)
        queried, rest = np.sort(shuffled[: self.queries]), shuffled[self.queries :]
        if len(queried) < self.queries:
            rule = f"there are only {data.records} records"
            raise InvalidInputError("queries", self.queries, rule)
        parts = [rest[part] for part in disjoint_parts(len(rest), self.teachers, random)]
        classroom = Classroom(data, learner, queried, self.answers)
        said = np.stack(list(executor.map(teach, classroom, parts)))
        if self.answers == "sample":
            # In an order of their own: the same draws in whatever order teachers come back.
            said = said[np.lexsort(said.reshape(len(said), -1).T)]
            drawn = draw_classes(said.reshape(-1, said.shape[2]), random)
            return queried, count_votes(drawn.reshape(said.shape[:2]), said.shape[2])
        # Sorted before they are added up: the same bits in whatever order teachers come back.
        return queried, np.sum(np.sort(said, axis=0), axis=0)

    def graduate(
        self,
        features: pl.DataFrame,
        votes: NDArray[np.float64],
        learner: Learner,
        *,
        random: np.random.Generator,
    ) -> TrainedModel:
        """Return the student that learns from the noisy answers to these votes."""
        mechanism = self.mechanism()
        if self.answers == "sample":
            answers = mechanism.sample_in_proportion(votes, random)
            return TrainedModel(learner.fit(features, answers))
        return TrainedModel(learner.fit(features, mechanism.sample(votes, random)))


def teach(classroom: Classroom, part: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one teacher's votes, (queries, classes): trained on its part, asked all queries."""
    data, learner = classroom.data, classroom.learner
    teacher = learner.fit(data.features[part], data.labels[part])
    chances = learner.predict(teacher, data.features[classroom.queries])
    if classroom.answers == "sample":
        return chances
    return count_votes(np.argmax(chances, axis=1)[np.newaxis], learner.classes)


def method_named(
    name: str,
    epsilon: float,
    *,
    teachers: int = 100,
    queries: int = 200,
) -> Method:
    """Return the method of that name at `epsilon`; infinity is the same pipeline without noise.

    `teachers` and `queries` are read by `pate-laplace` and `pate-gaussian` alone.

    Raises:
        InvalidInputError: an unknown name, or a value out of its range.
    """
    makers: dict[str, Callable[[], Method]] = {
        "lp-1st": lambda: MultiStage(epsilon),
        "lp-1st-domain-prior": lambda: MultiStage(epsilon, prior=MEASURED),
        "lp-1st-noise-correction": lambda: MultiStage(epsilon, noise_correction=True),
        "lp-2st": lambda: MultiStage(epsilon, stages=2),
        "lp-mst": lambda: MultiStage(epsilon, stages=3),
        "pate-laplace": lambda: Pate(
            epsilon, noise="laplace", delta=0.0, teachers=teachers, queries=queries
        ),
        "pate-gaussian": lambda: Pate(epsilon, teachers=teachers, queries=queries),
        "alibi": lambda: Alibi(epsilon),
    }
    if name not in makers:
        raise InvalidInputError("mechanism", name, f"it is one of {', '.join(MECHANISMS)}")
    return makers[name]()


MECHANISMS = (
    "lp-1st",
    "lp-1st-domain-prior",
    "lp-1st-noise-correction",
    "lp-2st",
    "lp-mst",
    "pate-laplace",
    "pate-gaussian",
    "alibi",
)

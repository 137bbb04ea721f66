"""PATE for tabular labels: teachers vote, noise decides, a student learns from the answers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import NoisyMax, count_votes, disjoint_parts
from privcore.mechanisms.noisy_max import Noise, draw_classes
from workers.executors import Executor
from workers.training.learner import Learner, TrainingData
from workers.training.method import TrainedModel

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

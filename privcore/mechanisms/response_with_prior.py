"""Randomized response that spends nothing on labels which a prior rules out."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.guarantees import PureDP
from privcore.mechanisms.parameter_checks import (
    check_classes,
    check_labels,
    check_parameter,
    check_prior,
    pure_entry,
)


@dataclass(frozen=True, slots=True)
class RandomizedResponseWithPrior:
    """RRWithPrior: randomized response among a record's k most probable labels.

    Ghazi, Golowich, Kumar, Manurangsi and Zhang 2021 (arXiv:2102.06062), Algorithms 2 and 3. Per
    record, k is the one that makes a right answer most probable under the prior: it maximises
    e^epsilon / (e^epsilon + k - 1) times the mass of the k most probable labels (the least such k,
    and of equally probable labels the lower ones). A label among the k is kept with probability
    e^epsilon / (e^epsilon + k - 1), else another of them is answered, each with probability
    1 / (e^epsilon + k - 1); a label that is not among them is answered by one of the k at random.

    Whatever k is, two labels' answers differ by a factor of at most e^epsilon: pure epsilon-DP for
    replacing a label, *given a prior that does not depend on that label*. A prior that was learned
    from the same labels has a cost of its own. Where k is 1 the answer says nothing of the label.
    With a uniform prior k is K, which is randomized response. An infinite epsilon keeps every
    label.

    Raises:
        InvalidInputError: epsilon is not above 0, or there are fewer than two classes.

    >>> RandomizedResponseWithPrior(epsilon=2.0, classes=3).guarantee.epsilon
    2.0
    """

    epsilon: float
    classes: int

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.epsilon)
        check_classes(self.classes)

    @property
    def guarantee(self) -> PureDP:
        """The guarantee for replacing one label."""
        return PureDP(self.epsilon)

    @property
    def manifest_entry(self) -> dict[str, Any] | None:
        """Entry of a manifest for it; None where nothing was made private."""
        return pure_entry("randomized_response_with_prior", self.epsilon)

    def top(self, prior: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return each record's k, shape (records,), from priors of shape (records, classes).

        Raises:
            InvalidInputError: a prior of another shape, negative, or that does not sum to 1.
        """
        check_prior(prior, shape=(len(prior), self.classes))
        if math.isinf(self.epsilon):
            return np.full(len(prior), self.classes)
        mass = np.cumsum(-np.sort(-prior, axis=1), axis=1)
        hits = self._keep(np.arange(1, self.classes + 1)) * mass
        return np.asarray(np.argmax(hits, axis=1) + 1, dtype=np.int64)

    def distribution(self, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each answer (column) given each label (row), for one prior.

        Raises:
            InvalidInputError: as `top`; the prior has shape (classes,).
        """
        check_prior(prior, shape=(self.classes,))
        top = int(self.top(prior[None, :])[0])
        among = np.argsort(-prior, kind="stable")[:top]
        matrix = np.zeros((self.classes, self.classes))
        matrix[:, among] = 1.0 / top
        keep = float(self._keep(np.array(top)))
        matrix[np.ix_(among, among)] = (1.0 - keep) / max(1, top - 1)
        matrix[among, among] = keep
        return matrix

    def sample(
        self,
        labels: NDArray[np.int64],
        prior: NDArray[np.float64],
        random: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Return one answer per label, shape (records,).

        Args:
            labels: shape (records,), class indices.
            prior: shape (records, classes), each record's own.
            random: the stream.

        Raises:
            InvalidInputError: as `top`, or a label outside 0 to classes - 1.
        """
        check_labels(labels, self.classes)
        check_prior(prior, shape=(len(labels), self.classes))
        top = self.top(prior)
        order = np.argsort(-prior, axis=1, kind="stable")
        place = np.argmax(order == labels[:, None], axis=1)
        keep = random.random(labels.shape) < self._keep(top)
        pick = random.random(labels.shape)
        other = (place + 1 + np.floor(pick * (top - 1)).astype(np.int64)) % top
        anyone = np.floor(pick * top).astype(np.int64)
        chosen = np.where(place >= top, anyone, np.where(keep, place, other))
        answers: NDArray[np.int64] = np.take_along_axis(order, chosen[:, None], axis=1)[:, 0]
        return answers

    def _keep(self, top: NDArray[np.int64]) -> NDArray[np.float64]:
        """e^epsilon / (e^epsilon + k - 1), without overflow."""
        return np.asarray(1.0 / (1.0 + (top - 1) * math.exp(-self.epsilon)), dtype=np.float64)

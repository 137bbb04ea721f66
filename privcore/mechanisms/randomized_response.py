"""Randomized response over K classes (Warner 1965; Kairouz, Oh and Viswanath 2016).

With it go the variant that spends nothing on labels which a prior rules out, the correction of
privatised labels' probabilities to those of true ones (an inverted flip matrix), and disjoint parts
of the records: stages of LP-MST, teachers of PATE.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import (
    check_classes,
    check_labels,
    check_parameter,
    check_prior,
)


def disjoint_parts(
    records: int, parts: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], ...]:
    """Return `parts` disjoint sets of record indices, of sizes that differ by at most 1.

    Together they hold every record once. Which part a record falls into depends on chance alone,
    so each label is used in one part only and the parts' guarantees do not add up.

    Raises:
        InvalidInputError: fewer than one part, or more parts than records.
    """
    if parts < 1:
        raise InvalidInputError("parts", parts, "there is at least 1 part")
    if parts > records:
        rule = f"{records} records make at most as many disjoint parts (stages or teachers)"
        raise InvalidInputError("parts", parts, rule)
    return tuple(np.sort(part) for part in np.array_split(random.permutation(records), parts))


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
        check_labels(labels, (labels.size, self.classes))
        keep = random.random(labels.shape) < self.keep_probability
        step = random.integers(1, self.classes, labels.shape)
        return np.where(keep, labels, (labels + step) % self.classes)


_LARGEST_CONDITION = 1e12


def correct_probabilities(
    probabilities: NDArray[np.float64], flip: NDArray[np.float64], *, floor: float = 0.0
) -> NDArray[np.float64]:
    """Return the true labels' probabilities: inverted, clipped to [floor, 1] and renormalised.

    LP-1ST with noise correction. If labels with probabilities p become answers by the flip matrix
    F, the answers have probabilities p F; this is `probabilities` times the inverse of F. That is
    linear, so an unbiased estimate of the answers' probabilities is one of the labels' where
    nothing is clipped. Clipping pulls small probabilities up and so errs upwards there. With
    `floor` 0 a label that is ruled out costs an infinite log-loss where it happens after all.

    Args:
        probabilities: shape (records, classes), of the private labels; each row sums to 1.
        flip: shape (classes, classes), probability of each answer (column) given each label (row).
        floor: the least probability before renormalising, at least 0 and below 1/classes.

    Raises:
        InvalidInputError: another floor, shapes that differ, rows that do not sum to 1, or a flip
            matrix that cannot be inverted (answers that do not depend on the label).
    """
    classes = len(flip)
    if not 0.0 <= floor < 1.0 / classes:
        raise InvalidInputError("floor", floor, f"it lies in [0, {1.0 / classes:g})")
    check_prior(flip, shape=(classes, classes))
    check_prior(probabilities, shape=(len(probabilities), classes))
    if np.linalg.cond(flip) > _LARGEST_CONDITION:
        rule = "answers that hardly depend on the label cannot be corrected"
        raise InvalidInputError("flip", flip.tolist(), rule)
    clipped = np.clip(np.linalg.solve(flip.T, probabilities.T).T, floor, 1.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True), dtype=np.float64)


def measure_prior(
    labels: NDArray[np.int64], mechanism: RandomizedResponse, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return an estimate of the classes' shares, shape (classes,), that costs `mechanism`.

    Every label answers by randomized response; the answers' shares are corrected. This is the
    domain prior: what follows from it costs nothing more, but other uses of the labels compose
    with it.
    """
    if labels.size == 0:
        raise InvalidInputError("labels", (0,), "a prior is measured on at least 1 label")
    answers = mechanism.sample(labels, random)
    shares = np.bincount(answers, minlength=mechanism.classes) / labels.size
    prior: NDArray[np.float64] = correct_probabilities(shares[None, :], mechanism.distribution())[0]
    return prior


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

    >>> RandomizedResponseWithPrior(epsilon=2.0, classes=3).top(np.array([[0.9, 0.06, 0.04]]))
    array([1])
    """

    epsilon: float
    classes: int

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.epsilon)
        check_classes(self.classes)

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
        self, labels: NDArray[np.int64], prior: NDArray[np.float64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return one answer per label, shape (records,).

        Args:
            labels: shape (records,), class indices.
            prior: shape (records, classes), each record's own.
            random: the stream.

        Raises:
            InvalidInputError: as `top`, or a label outside 0 to classes - 1.
        """
        check_labels(labels, (labels.size, self.classes))
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

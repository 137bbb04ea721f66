"""PATE's aggregation: the class with the most teachers' votes after noise, or a draw from them."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees import gaussian_mu, noisy_max_gaussian, noisy_max_laplace
from privcore.mechanisms.parameter_checks import check_parameter

Noise = Literal["laplace", "gaussian"]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_REACH = {"laplace": 40.0, "gaussian": 12.0}  # noise beyond this many scales has no mass


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Answer `queries` queries by noisy maxima of teachers' votes.

    Papernot et al. 2017 (arXiv:1610.05755) with Laplace noise, 2018 (arXiv:1802.08908) with
    Gaussian. Teachers are trained on disjoint parts, so replacing one label moves one vote of each
    query: two counts by 1. `noisy_max_laplace` and `noisy_max_gaussian` account for it without
    looking at the votes, whatever they are; epsilon is stated at `delta`.

    Args:
        noise: `laplace` or `gaussian`.
        scale: the Laplace distribution's scale, or the normal's standard deviation, in votes;
            0 is no noise (epsilon infinite).
        queries: how many records are answered.
        delta: where the guarantee is stated; above 0 with Gaussian noise.

    Raises:
        InvalidInputError: another noise, a scale below 0, no queries, a delta that does not fit.
    """

    noise: Noise
    scale: float
    queries: int
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.noise not in _REACH:
            raise InvalidInputError("noise", self.noise, "it is laplace or gaussian")
        if self.scale != 0.0:
            check_parameter("scale", self.scale)
        if self.queries < 1:
            raise InvalidInputError("queries", self.queries, "PATE answers at least 1 query")
        if not 0.0 <= self.delta < 1.0:
            raise InvalidInputError("delta", self.delta, "it is at least 0 and below 1")
        if self.noise == "gaussian" and not 0.0 < self.delta < 1.0:
            raise InvalidInputError("delta", self.delta, "Gaussian noise needs a delta in (0, 1)")

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, noise: Noise, queries: int, delta: float = 0.0
    ) -> Self:
        """Return the aggregation whose data-independent epsilon is at most this.

        It is this, but with Laplace noise at a delta above 0: there the scale is that of Papernot
        et al. 2017 (arXiv:1610.05755), section 3.1, epsilon = 4 T g^2 + 2 g sqrt(2 T log(1/delta))
        for T queries at scale 1/g, which Wu et al. 2023 use too. `epsilon` accounts for less.
        Infinity is no noise.
        """
        check_parameter("epsilon", epsilon)
        without = cls(noise, 0.0, queries, delta)  # checks the rest before anything is computed
        if math.isinf(epsilon):
            return without
        if noise == "laplace" and not delta:
            return cls(noise, 2.0 * queries / epsilon, queries)
        if noise == "laplace":
            half = math.sqrt(2.0 * queries * math.log(1.0 / delta))
            scale = (half + math.sqrt(half**2 + 4.0 * queries * epsilon)) / epsilon
            return cls(noise, scale, queries, delta)
        mu = float(gaussian_mu(epsilon, delta=delta))
        return cls(noise, math.sqrt(2.0 * queries) / mu, queries, delta)

    @property
    def epsilon(self) -> float:
        """The data-independent epsilon of all queries together, at `delta`."""
        if not self.scale:
            return math.inf
        account = noisy_max_laplace if self.noise == "laplace" else noisy_max_gaussian
        return account(self.scale, self.queries).epsilon(self.delta)

    def distribution(self, votes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each answer to one query, shape (classes,), by quadrature.

        Class j wins with the integral of its noise's density at t times the product over the
        others i of P(noise <= t + votes_j - votes_i). Without noise the most votes win, and equal
        ones share.
        """
        _check_votes(votes[None, :])
        if not self.scale:
            winners = votes == votes.max()
            shares: NDArray[np.float64] = winners / winners.sum()
            return shares
        from scipy import stats  # noqa: PLC0415  # as long as all else here, and tests alone need it

        law = stats.laplace if self.noise == "laplace" else stats.norm
        reach = _REACH[self.noise] * self.scale

        def won(place: int) -> float:
            lead = votes[place] - np.delete(votes, place)
            # Between the kinks, at 0 and where t + lead passes 0, the integrand is smooth.
            kinks = (0.0, *(-lead[np.abs(lead) < reach]))
            ends = np.unique([-reach, *kinks, reach])
            middle, half = (ends[1:] + ends[:-1]) / 2.0, np.diff(ends) / 2.0
            points = (middle[:, None] + half[:, None] * _NODES).ravel()
            weights = (half[:, None] * _WEIGHTS).ravel()
            below = law.cdf(points[:, None] + lead, scale=self.scale).prod(axis=1)
            return float(weights @ (law.pdf(points, scale=self.scale) * below))

        return np.array([won(place) for place in range(len(votes))])

    def sample(self, votes: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
        """Return one answer per query, shape (queries,), from votes of shape (queries, classes).

        Raises:
            InvalidInputError: votes that are negative or not `queries` rows: another number of
                answers would cost another epsilon.
        """
        # Without noise, equal votes are still decided by chance.
        noisy = self._noisy(votes, self.scale or 1e-9, random)
        answers: NDArray[np.int64] = np.argmax(noisy, axis=1)
        return answers

    def sample_in_proportion(
        self, votes: NDArray[np.float64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return one answer per query, shape (queries,), drawn in proportion to the noisy counts.

        Negative noisy counts count as 0. Where all are, every class is as likely: the true shares
        of the classes, which Wu et al. 2023's published code takes there, are no public number. It
        costs what the largest alone is accounted for: a replaced label changes what one teacher
        says, votes that sum to 1 at most, so the counts of a query by at most 2 in sum and sqrt(2)
        in length, as a moved vote does. Then all noisy counts may be published, and a draw from
        them as well.

        Args:
            votes: shape (queries, classes), counts or sums of probabilities.
            random: draws the noise and the answers.
        """
        counts = np.maximum(self._noisy(votes, self.scale, random), 0.0)
        counts[counts.sum(axis=1) == 0.0] = 1.0
        return draw_classes(counts, random)

    def _noisy(
        self, votes: NDArray[np.float64], scale: float, random: np.random.Generator
    ) -> NDArray[np.float64]:
        _check_votes(votes)
        if len(votes) != self.queries:
            rule = f"it was accounted for exactly {self.queries} queries"
            raise InvalidInputError("votes", votes.shape, rule)
        draw = random.laplace if self.noise == "laplace" else random.normal
        return np.asarray(votes + draw(0.0, scale, votes.shape))


def draw_classes(weights: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return a class per row, shape (rows,), drawn in proportion to weights (rows, classes).

    The weights are at least 0, and of each row one is above 0.
    """
    ends = np.cumsum(weights, axis=1)
    drawn = random.random((len(weights), 1)) * ends[:, -1:]
    return np.asarray(np.minimum((drawn >= ends).sum(axis=1), weights.shape[1] - 1), dtype=np.int64)


def count_votes(answers: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Return votes of shape (queries, classes) from teachers' answers, (teachers, queries)."""
    if answers.ndim != 2 or np.any((answers < 0) | (answers >= classes)):
        rule = f"its shape is (teachers, queries) and each lies in 0 to {classes - 1}"
        raise InvalidInputError("answers", answers.shape, rule)
    votes: NDArray[np.float64] = (answers[:, :, None] == np.arange(classes)).sum(axis=0)
    return votes.astype(np.float64)


def _check_votes(votes: NDArray[np.float64]) -> None:
    if votes.ndim != 2 or votes.shape[1] < 2 or not np.all(votes >= 0.0):
        rule = "votes are counts of at least 0, one per class"
        raise InvalidInputError("votes", votes.shape, rule)

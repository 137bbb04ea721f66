"""Mechanisms that add noise while training: to sums, to gradients, to teachers' votes."""

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.accounting.composition import Composition
from privcore.guarantees.accounting.labels import PureMechanism
from privcore.guarantees.accounting.mechanism import (
    AccountedAs,
    Neighbors,
    check_count,
    check_number,
    counted_epsilon,
    event_renyi,
)
from privcore.guarantees.conversions import Floats, gaussian_epsilon, gaussian_renyi


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Gaussian noise of `noise_multiplier` times the sensitivity under the stated relation.

    It is 1/noise_multiplier-Gaussian DP (Dong, Roth and Su 2022, Theorem 1).

    >>> round(GaussianMechanism(1.0).epsilon(1e-5), 2)
    4.38
    """

    noise_multiplier: float
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("noise_multiplier", self.noise_multiplier, above=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at `delta`; infinite at 0."""
        return float(gaussian_epsilon(1.0 / self.noise_multiplier, delta=delta))

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence, order / (2 noise_multiplier^2)."""
        return gaussian_renyi(1.0 / self.noise_multiplier, orders=orders)

    def privacy_loss(self) -> Any:
        """Return the PLD of one Gaussian mechanism."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(self.noise_multiplier)


@dataclass(frozen=True, slots=True)
class NoisyMaxLaplace(AccountedAs):
    """PATE: `queries` answers, each the class with the most teachers' votes after Laplace noise.

    One record reaches one teacher, which moves one vote: two counts by 1, so an answer is
    2/scale-DP (Papernot et al. 2017, arXiv:1610.05755, section 3.1, with scale = 1/gamma). It does
    not use how clear the votes were: that makes a smaller epsilon, but one that depends on data.

    >>> round(NoisyMaxLaplace(10.0, queries=5).epsilon(0.0), 2)
    1.0
    """

    scale: float
    queries: int
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("scale", self.scale, above=0.0)
        check_count("queries", self.queries, least=1)

    @property
    def accounted_as(self) -> Composition:
        """Composition of pure answers, chosen one after the other."""
        answer = PureMechanism(2.0 / self.scale, self.neighbors)
        return Composition((answer,), times=self.queries)


@dataclass(frozen=True, slots=True)
class NoisyMaxGaussian(AccountedAs):
    """PATE: `queries` answers, each the class with the most votes after Gaussian noise.

    A moved vote is a distance of sqrt(2) between vote counts, so all answers together are
    sqrt(2 queries)/deviation-Gaussian DP, and (order, order queries/deviation^2)-Renyi DP:
    Papernot et al. 2018 (arXiv:1802.08908), Proposition 8. It does not depend on data.

    >>> round(NoisyMaxGaussian(10.0, queries=5).epsilon(1e-5), 2)
    1.2
    """

    deviation: float
    queries: int
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("deviation", self.deviation, above=0.0)
        check_count("queries", self.queries, least=1)

    @property
    def accounted_as(self) -> GaussianMechanism:
        """All noisy counts published at once."""
        multiplier = self.deviation / math.sqrt(2.0 * self.queries)
        return GaussianMechanism(multiplier, self.neighbors)


@dataclass(frozen=True, slots=True)
class DpSgd:
    """`steps` sums of clipped gradients, each over a Poisson sample, with Gaussian noise.

    Abadi et al. 2016 (arXiv:1607.00133). The noise multiplier is relative to the clipping norm,
    which is the sensitivity to adding or removing a record; the PLD under replacement counts the
    move from one clipped gradient to its opposite. Batches that are shuffled, not Poisson samples,
    are not covered.

    >>> round(DpSgd(noise_multiplier=1.1, sampling_rate=0.01, steps=10).epsilon(1e-5), 1)
    0.3
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    neighbors: Neighbors = Neighbors.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number("noise_multiplier", self.noise_multiplier, above=0.0)
        check_number("sampling_rate", self.sampling_rate, above=0.0)
        if self.sampling_rate > 1.0:
            raise InvalidInputError("sampling_rate", self.sampling_rate, "it lies in (0, 1]")
        check_count("steps", self.steps, least=1)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta` by PLD, a bound with a tiny excess; infinite at 0."""
        return counted_epsilon(self, math.inf, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the divergence (Mironov, Talwar and Zhang 2019, arXiv:1908.10530).

        It is infinite at orders whose series did not converge.

        Raises:
            InvalidInputError: the relation is replacement, for which dp_accounting has no curve.
        """
        if self.neighbors is not Neighbors.ADD_REMOVE:
            rule = "the Renyi curve of DP-SGD is known for add_remove; use epsilon(delta)"
            raise InvalidInputError("neighbors", str(self.neighbors), rule)
        import dp_accounting

        step = dp_accounting.PoissonSampledDpEvent(
            self.sampling_rate, dp_accounting.GaussianDpEvent(self.noise_multiplier)
        )
        event = dp_accounting.SelfComposedDpEvent(step, self.steps)
        return event_renyi(event, orders, limit=math.inf)

    def privacy_loss(self) -> Any:
        """Return the PLD of all steps together."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution

        relation = {
            Neighbors.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
            Neighbors.REPLACE: NeighboringRelation.REPLACE_ONE,
        }[self.neighbors]
        step = privacy_loss_distribution.from_gaussian_mechanism(
            self.noise_multiplier,
            sampling_prob=self.sampling_rate,
            neighboring_relation=relation,
        )
        return step.self_compose(self.steps)

"""The accounts of mechanisms that make labels private before training sees them.

The mechanisms themselves, which sample, are in `privcore.mechanisms` under the same names.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.accounting.mechanism import (
    AccountedAs,
    Neighbors,
    check_count,
    check_number,
    counted_epsilon,
    event_renyi,
)
from privcore.guarantees.conversions import Floats, checked_delta, pure_renyi


@dataclass(frozen=True, slots=True)
class PureMechanism:
    """Anything that is known to be epsilon-DP, and nothing more.

    It is accounted for as binary randomized response, of which every epsilon-DP mechanism is a
    post-processing (Kairouz, Oh and Viswanath 2015, arXiv:1311.0776).

    >>> PureMechanism(0.7).epsilon(0.0)
    0.7
    """

    pure_epsilon: float
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("epsilon", self.pure_epsilon, least=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of binary randomized response at `delta`."""
        return _response_epsilon(self.pure_epsilon, 2, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the largest divergence that epsilon-DP allows."""
        return pure_renyi(self.pure_epsilon, orders=orders)

    def privacy_loss(self) -> Any:
        """Return the PLD of binary randomized response."""
        from dp_accounting.pld import common, privacy_loss_distribution

        parameters = common.DifferentialPrivacyParameters(self.pure_epsilon, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(parameters)


@dataclass(frozen=True, slots=True)
class RandomizedResponseAccount:
    """K-ary randomized response on a label: kept, or replaced by one of the K - 1 others.

    It is kept with probability e^epsilon / (e^epsilon + K - 1), which is epsilon-label-DP and no
    better (Warner 1965 for K = 2; Kairouz, Bonawitz and Ramage 2016, arXiv:1602.07387).

    >>> RandomizedResponseAccount(1.0, classes=2).epsilon(0.0)
    1.0
    """

    pure_epsilon: float
    classes: int

    def __post_init__(self) -> None:
        check_number("epsilon", self.pure_epsilon, least=0.0)
        check_count("classes", self.classes, least=2)

    @classmethod
    def from_keep_probability(cls, keep_probability: float, classes: int) -> Self:
        """Describe the response that keeps a label with `keep_probability`, in [1/classes, 1).

        Its epsilon is log(p (K - 1)/(1 - p)).
        """
        check_count("classes", classes, least=2)
        check_number("keep_probability", keep_probability, least=1.0 / classes)
        if keep_probability >= 1.0:
            rule = "a label that is always kept has no guarantee: it lies in [1/classes, 1)"
            raise InvalidInputError("keep_probability", keep_probability, rule)
        odds = math.log(keep_probability) + math.log(classes - 1) - math.log1p(-keep_probability)
        # At 1/classes rounding may leave a tiny negative number.
        return cls(max(0.0, odds), classes)

    @property
    def keep_probability(self) -> float:
        """The probability that a label is kept, e^epsilon / (e^epsilon + K - 1)."""
        return 1.0 / (1.0 + (self.classes - 1) * math.exp(-self.pure_epsilon))

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at `delta`; with more classes it falls faster in delta."""
        return _response_epsilon(self.pure_epsilon, self.classes, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence between the responses to two labels."""
        return pure_renyi(self.pure_epsilon, orders=orders, classes=self.classes)

    def privacy_loss(self) -> Any:
        """Return the PLD between the responses to two labels."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution

        # dp_accounting's parameter: the probability of an answer that ignores the label.
        noise = self.classes * math.exp(
            -np.logaddexp(self.pure_epsilon, math.log(self.classes - 1))
        )
        return privacy_loss_distribution.from_randomized_response(
            min(noise, 1.0), self.classes, neighboring_relation=NeighboringRelation.REPLACE_ONE
        )


@dataclass(frozen=True, slots=True)
class RandomizedResponseWithPriorAccount(AccountedAs):
    """Randomized response among a label's most probable values, by a prior blind to the label.

    Ghazi et al. 2021 (arXiv:2102.06062), RRTop-k and RRWithPrior: a label among the k most
    probable is answered as by k-ary randomized response, any other by one of the k at random. It
    is epsilon-label-DP whatever the k of each record, and k = 1 reveals nothing. `top` is the
    least k above 1 that any record used; 2, the worst, is right where k was chosen per record.

    The prior itself, if it was learned from labels, has a cost of its own: compose it.
    `prior_from_outside` says that it was not: these class probabilities were known before the
    labels were looked at, and cost nothing. If that is not so, neither is the guarantee.

    >>> RandomizedResponseWithPriorAccount(1.0).epsilon(0.0)
    1.0
    """

    pure_epsilon: float
    top: int = 2
    prior_from_outside: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_count("top", self.top, least=2)
        check_number("epsilon", self.pure_epsilon, least=0.0)
        if self.prior_from_outside is not None:
            _check_prior(self.prior_from_outside)

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    @property
    def accounted_as(self) -> RandomizedResponseAccount:
        """The pair of labels that are distinguished most easily: both among the `top`."""
        return RandomizedResponseAccount(self.pure_epsilon, self.top)


@dataclass(frozen=True, slots=True)
class LaplaceOneHotAccount:
    """Laplace noise of standard deviation `deviation` on every entry of a one-hot label.

    ALIBI (Malek et al. 2021, arXiv:2106.03408): replacing a label moves two entries by 1, so
    epsilon = 2 / scale = 2 sqrt(2) / deviation. What is done with the noisy labels later is free.

    >>> round(LaplaceOneHotAccount(2.0).epsilon(0.0), 3)
    1.414
    """

    deviation: float

    def __post_init__(self) -> None:
        check_number("deviation", self.deviation, above=0.0)

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    @property
    def scale(self) -> float:
        """The Laplace distribution's scale, its deviation over sqrt(2)."""
        return self.deviation / math.sqrt(2.0)

    def epsilon(self, delta: float) -> float:
        """Return 2 sqrt(2) / deviation at delta 0, else at most that, from the PLD."""
        return counted_epsilon(self, 2.0 / self.scale, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence: twice that of one entry."""
        import dp_accounting

        event = dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(self.scale), 2)
        return event_renyi(event, orders, limit=2.0 / self.scale)

    def privacy_loss(self) -> Any:
        """Return the PLD of two entries that move by 1."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(self.scale).self_compose(2)


def _check_prior(prior: Sequence[float]) -> None:
    rule = "it is a list of at least 2 class probabilities, which sum to 1 within 1e-6"
    if not isinstance(prior, list | tuple) or len(prior) < 2:
        raise InvalidInputError("prior_from_outside", prior, rule)
    for probability in prior:
        check_number("prior_from_outside", probability, least=0.0)
    if abs(math.fsum(prior) - 1.0) > 1e-6:
        raise InvalidInputError("prior_from_outside", prior, rule)


def _response_epsilon(epsilon: float, classes: int, delta: float) -> float:
    """Epsilon at delta of K-ary randomized response.

    Its hockey-stick divergence at epsilon' is (e^epsilon - e^epsilon') / (e^epsilon + K - 1).
    """
    share = delta * (1.0 + (classes - 1) * math.exp(-epsilon))
    checked_delta(delta)
    return max(0.0, epsilon + math.log1p(-share)) if share < 1.0 else 0.0

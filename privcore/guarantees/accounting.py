"""From a mechanism's parameters to the guarantee that they account for.

A mechanism is an immutable description of what was done to the data, like dp_accounting's
`DpEvent`, and says three things: `epsilon(delta)`, `renyi(orders)`, and `privacy_loss()`, the
dp_accounting privacy loss distribution (PLD) from which compositions are counted. Each states
its neighbouring relation. What they answer is the cost of the *described* mechanism: whether the
training really was that mechanism is what an audit asks.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import reduce
from typing import Any, Protocol

import dp_accounting
import numpy as np
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import (
    Floats,
    checked_delta,
    checked_orders,
    gaussian_epsilon,
    gaussian_renyi,
    pure_renyi,
)


class Neighbors(StrEnum):
    """Which two datasets a guarantee compares."""

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"


class Mechanism(Protocol):
    """What every description of a mechanism answers."""

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation under which the answers hold."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon such that the mechanism is (epsilon, delta)-DP."""

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence at each order, in nats; shape of `orders`."""

    def privacy_loss(self) -> Any:
        """Return the pessimistic dp_accounting `PrivacyLossDistribution`."""


@dataclass(frozen=True, slots=True)
class PureMechanism:
    """Anything that is known to be epsilon-DP, and nothing more.

    It is accounted for as binary randomized response, of which every epsilon-DP mechanism is a
    post-processing (Kairouz, Oh and Viswanath 2015, arXiv:1311.0776).
    """

    pure_epsilon: float
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        _check_number("epsilon", self.pure_epsilon, least=0.0)
        _set_neighbors(self)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of binary randomized response at `delta`."""
        return _response_epsilon(self.pure_epsilon, 2, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the largest Renyi divergence that epsilon-DP allows."""
        return pure_renyi(self.pure_epsilon, orders=orders)

    def privacy_loss(self) -> Any:
        """Return the PLD of binary randomized response."""
        parameters = common.DifferentialPrivacyParameters(self.pure_epsilon, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(parameters)


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """K-ary randomized response on a label, perhaps among its `top` most probable values only.

    The true label is kept with probability e^epsilon / (e^epsilon + K - 1), else replaced by one
    of the others (Warner 1965; Kairouz et al. 2016). With a prior that does not depend on the
    label (Ghazi et al. 2021, RRTop-k), a label among the `top` is treated so with K = `top`, any
    other becomes one of the `top` at random; epsilon-label-DP holds all the same, and `top` 1
    reveals nothing. If k varies by record, as in RRWithPrior, leave `top` out: then epsilon
    at delta 0 is exact, and at other deltas a bound only if no record used fewer classes, so it
    is stated for the worst case of two.
    """

    response_epsilon: float
    classes: int
    top: int | None = None
    varying: bool = False

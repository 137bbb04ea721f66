"""Interface of every description of a mechanism, and code that their accounting shares."""

import math
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked_delta, checked_orders

if TYPE_CHECKING:
    import dp_accounting


class Neighbors(StrEnum):
    """Pair of datasets that a mechanism's accounting compares; `Relation` has a claim's."""

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"


class Mechanism(Protocol):
    """Interface of every description of a mechanism."""

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation under which the answers hold."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon, infinite if need be, such that (epsilon, delta)-DP holds."""

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence in nats at each order above 1, in the shape of `orders`."""

    def privacy_loss(self) -> Any:
        """Return a pessimistic `PrivacyLossDistribution` of dp_accounting."""


class AccountedAs(ABC):
    """A mechanism whose cost is that of another, simpler one."""

    __slots__ = ()

    @property
    @abstractmethod
    def accounted_as(self) -> Mechanism:
        """The mechanism that is counted instead: its cost is the same, or a bound."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon, infinite if need be, such that (epsilon, delta)-DP holds."""
        return self.accounted_as.epsilon(delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence in nats at each order above 1, in the shape of `orders`."""
        return self.accounted_as.renyi(orders)

    def privacy_loss(self) -> Any:
        """Return a pessimistic `PrivacyLossDistribution` of dp_accounting."""
        return self.accounted_as.privacy_loss()


def counted_epsilon(mechanism: Mechanism, pure: float, delta: float) -> float:
    """Epsilon at delta from the PLD, whose rounding must not lift it above the pure epsilon."""
    checked_delta(delta)
    if delta == 0.0:
        return pure
    return min(pure, float(mechanism.privacy_loss().get_epsilon_for_delta(delta)))


def event_renyi(event: "dp_accounting.DpEvent", orders: ArrayLike, *, limit: float) -> Floats:
    """dp_accounting's Renyi curve; `limit` at order infinity."""
    from dp_accounting.rdp import RdpAccountant

    orders = checked_orders(orders)
    finite = np.isfinite(orders)
    accountant = RdpAccountant(np.where(finite, orders, 2.0).ravel().tolist())
    divergences = accountant.compose(event).rdp.reshape(orders.shape)
    return np.where(finite, divergences, limit)[()]


def check_number(
    name: str, value: float, *, least: float = -math.inf, above: float = -math.inf
) -> None:
    """Raise `InvalidInputError` unless `value` is a finite number in the range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least or value <= above:
        bound = f"at least {least:g}" if above == -math.inf else f"above {above:g}"
        raise InvalidInputError(name, value, f"it is a finite number {bound}")


def check_count(name: str, value: int, *, least: int) -> None:
    """Raise `InvalidInputError` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError(name, value, f"it is a whole number of at least {least}")

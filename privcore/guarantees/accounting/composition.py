"""Several mechanisms on the same record."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.accounting.mechanism import (
    Mechanism,
    Neighbors,
    check_count,
    counted_epsilon,
)
from privcore.guarantees.conversions import Floats


@dataclass(frozen=True, slots=True)
class Composition:
    """Several mechanisms on the same record, the whole list `times` over.

    The same label in thirty days' training is `Composition((daily,), times=30)`. Later mechanisms
    may be chosen by what earlier ones answered, their parameters may not.

    >>> from privcore.guarantees import RandomizedResponseAccount
    >>> Composition((RandomizedResponseAccount(1.0, 2),), times=3).epsilon(0.0)
    3.0
    """

    mechanisms: tuple[Mechanism, ...]
    times: int = 1

    def __post_init__(self) -> None:
        check_count("times", self.times, least=1)
        relations = sorted({str(mechanism.neighbors) for mechanism in self.mechanisms})
        if len(relations) != 1:
            rule = "a composition has at least one mechanism, all under one neighbouring relation"
            raise InvalidInputError("neighbors", relations, rule)

    @property
    def neighbors(self) -> Neighbors:
        """The relation that all of them share."""
        return self.mechanisms[0].neighbors

    def epsilon(self, delta: float) -> float:
        """Return the sum of epsilons at delta 0, else at most that, from the composed PLDs."""
        pure = self.times * math.fsum(each.epsilon(0.0) for each in self.mechanisms)
        return counted_epsilon(self, pure, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the sum of divergences (Mironov 2017, arXiv:1702.07476, Proposition 1)."""
        total = np.sum([each.renyi(orders) for each in self.mechanisms], axis=0)
        return np.asarray(self.times * total)[()]

    def privacy_loss(self) -> Any:
        """Return the composed PLD."""
        losses = [each.privacy_loss() for each in self.mechanisms]
        once = reduce(lambda one, other: one.compose(other), losses)
        return once.self_compose(self.times) if self.times > 1 else once

"""Claims about the privacy loss, which audits test, and how many guesses an adversary makes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.guarantees import (
    ApproxDP,
    Family,
    Gaussian,
    Guarantee,
    Relation,
    add_remove_to_replace,
    gaussian_mu,
)
from privcore.lower_bounds.question import Secret


def guess_counts(records: int, fractions: tuple[float, ...]) -> NDArray[np.int64]:
    """Return how many guesses each fraction of `records` is: at least 1 where there are records."""
    return np.maximum(np.floor(np.array(fractions) * records + 1e-9), min(records, 1)).astype(
        np.int64
    )


_LARGEST_DELTA = 1.0 - 1e-12
_CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Claim:
    """Epsilon at `delta` in the family that fits the declaration.

    Attributes:
        family: without a declaration the (epsilon, delta) family, at a delta agreed beforehand.
        delta: where epsilon is stated.
        significance: allowed probability that a bound against the claim is wrong.
        standing_significance: the same of the standing, to which all nights add.
        shift: bound on the total-variation distance between labels and proxy, tau.
        neighbors: the relation that the claim's epsilon speaks of.
        epsilon: what was declared; None where nothing was.
        secret: what is replaced: the label, a column, or the whole record.
    """

    family: Family = ApproxDP()  # noqa: RUF009  # frozen, without state
    delta: float = 1e-5
    significance: float = 0.05
    standing_significance: float = 0.01
    shift: float = 0.0
    neighbors: Relation = Relation.REPLACE
    epsilon: float | None = None
    secret: Secret = Secret.LABEL

    def guarantee(self) -> Guarantee | None:
        """Return the guarantee that the game tests; None where nothing was declared.

        The game shows a record's label or an imputed one ("Observational Auditing of Privacy",
        Theorem 5 and Definition 2), so it tests what the declaration implies for SIMULATE: a
        guarantee for replacing a label implies that as it is, one for simulating it is that. One
        for adding or removing a record allows twice as much: removing and adding, two steps
        (`add_remove_to_replace`; for Gaussian DP twice mu, Dong, Roth and Su 2022, Theorem 3).
        """
        if self.epsilon is None:
            return None
        steps = self.neighbors.imputations
        if isinstance(self.family, Gaussian):
            return Gaussian(steps * float(gaussian_mu(self.epsilon, delta=self.delta)))
        if steps == 1:
            return self.family.member(self.epsilon, delta=self.delta)
        epsilon, delta = add_remove_to_replace(self.epsilon, delta=self.delta)
        return self.family.member(float(epsilon), delta=min(float(delta), _LARGEST_DELTA))

    def epsilon_of(self, bound: Callable[[float], float]) -> float:
        """Return the epsilon of the claim's relation that the game's bounds prove.

        Args:
            bound: from a delta to the largest epsilon that the game rejects at it (`guarantee`),
                in the claim's family.

        For adding or removing at (epsilon, delta) the game must reject (2 epsilon, (1 + e^epsilon)
        delta). What is rejected at some delta is so at any smaller one, so if the
        bound at (1 + e^epsilon) delta reaches 2 epsilon, all claims up to epsilon are rejected;
        the largest such epsilon is found by halving, to 1e-4 and from below.
        """
        steps, found = self.neighbors.imputations, bound(self.delta)
        if steps == 1 or found == 0.0:
            return found
        if isinstance(self.family, Gaussian):
            mu = float(gaussian_mu(found, delta=self.delta))
            return Gaussian(mu / steps).epsilon_at(delta=self.delta)
        low, high = 0.0, found / steps
        if self.delta == 0.0:
            return high
        while high - low > _CLOSE:
            middle = 0.5 * (low + high)
            doubled, grown = add_remove_to_replace(middle, delta=self.delta)
            if grown < 1.0 and bound(float(grown)) >= doubled:
                low = middle
            else:
                high = middle
        return low

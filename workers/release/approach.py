"""Attack on a live system: by what it claims, and by what it was seen to do."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import Adversary, Disagreement, Noise, NotZeroOrOne, recognise_noise
from privcore.exceptions import INTERFACE_ERRORS
from workers.release.interface import LiveInterface
from workers.release.release_plan import ReleasePlan
from workers.release.table import Table

_REPETITIONS = 30
"""Repetitions of a question to a system that rounds: noise stays hidden once in 500 million."""


@dataclass(frozen=True, slots=True)
class Approach:
    """Adversary, and the part of the table that it can read.

    Attributes:
        adversary: who asks.
        epsilon: the budget that each query is given.
        noise: what was seen of it; None where the system failed while it was looked for.
        existence: whether the distinct records alone can be read.
        asked: queries that it took to see that.
        stopped: why it could not be seen; None where it could.
    """

    adversary: Adversary
    epsilon: float
    noise: Noise | None
    existence: bool
    asked: int
    stopped: str | None = None

    def rows(self, table: Table) -> NDArray[np.int64]:
        """Return what there is to read of a table."""
        return np.unique(table.cells, axis=0) if self.existence else table.cells


def find_approach(live: LiveInterface, plan: ReleasePlan) -> Approach:
    """Look where a system's answers have noise, and choose the attack that fits."""
    rule, k = plan.rule(), plan.adversary_k()
    epsilon = plan.epsilon_per_query((live.records, len(live.columns)))
    claimed = Approach(
        Adversary(live, rule, k=k, epsilon=epsilon * rule.repetitions),
        epsilon,
        noise=None,
        existence=plan.definition == "bdp",
        asked=0,
    )
    looking = Adversary(live, NotZeroOrOne(), k=0, epsilon=epsilon)
    try:
        noise = recognise_noise(looking)
    except INTERFACE_ERRORS as error:
        return replace(claimed, asked=looking.queries, stopped=str(error))
    seen = replace(claimed, noise=noise, asked=looking.queries)
    if noise is Noise.NOWHERE:
        plain = Adversary(live, NotZeroOrOne(), k=0, epsilon=epsilon)
        return replace(seen, adversary=plain, existence=False)
    if noise is Noise.ROUNDED:
        rule = Disagreement(_REPETITIONS)
        again = Adversary(live, rule, k=k, epsilon=epsilon * rule.repetitions)
        return replace(seen, adversary=again)
    return seen

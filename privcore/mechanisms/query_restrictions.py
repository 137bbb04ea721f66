"""Countermeasures that restrict which queries are answered, and what each costs an attacker.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", section 3.6. None of
them is a guarantee: a limit on queries leaves the attacks on single persons, which take two, and a
minimum budget per query only raises what each query is claimed to cost. Noise on the count instead
of the answer is `NoisyCountThreshold`, which is differentially private.
"""

import math

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError, QueryRefusedError
from privcore.mechanisms.table_columns import Column
from privcore.mechanisms.threshold_queries import Predicates, QueryInterface


class RestrictedInterface:
    """Another interface that refuses what goes beyond its restrictions.

    A batch that would pass a limit is refused as a whole, and nothing of it is answered.

    Args:
        interface: who answers what is not refused.
        queries: most queries that are ever answered.
        budget: most that all answered queries may spend together, by the definition's accounting.
        minimum_epsilon: least budget that a single query must spend.
    """

    def __init__(
        self,
        interface: QueryInterface,
        *,
        queries: float = math.inf,
        budget: float = math.inf,
        minimum_epsilon: float = 0.0,
    ) -> None:
        for name, value in (
            ("queries", queries),
            ("budget", budget),
            ("minimum_epsilon", minimum_epsilon),
        ):
            if not value >= 0.0:
                raise InvalidInputError(name, value, "a restriction is at least 0")
        self._interface = interface
        self._queries = queries
        self._budget = budget
        self._minimum_epsilon = minimum_epsilon
        self.answered = 0
        self.spent = 0.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """The public schema."""
        return self._interface.columns

    @property
    def records(self) -> int:
        """The public number of records."""
        return self._interface.records

    def answer(
        self, predicates: Predicates, thresholds: NDArray[np.int64], *, epsilon: float
    ) -> NDArray[np.float64]:
        """Return the other interface's answers.

        Raises:
            QueryRefusedError: a restriction does not allow this batch.
        """
        if epsilon < self._minimum_epsilon:
            raise QueryRefusedError("a query spends at least epsilon", self._minimum_epsilon)
        if self.answered + predicates.size > self._queries:
            raise QueryRefusedError("the number of queries is limited", self._queries)
        # The sum of many small epsilons is rounded: a budget that is just used up is not exceeded.
        if self.spent + predicates.size * epsilon > self._budget * (1.0 + 1e-9):
            raise QueryRefusedError("the budget is used up", self._budget)
        answers = self._interface.answer(predicates, thresholds, epsilon=epsilon)
        self.answered += predicates.size
        self.spent += predicates.size * epsilon
        return answers

"""An adversary who asks threshold queries, counts them, and reads counts from their noise.

Everything that an attack on local sensitivity needs is one comparison, "do more than m records
satisfy phi?", answered with certainty by one query about noise ("Reconstruction Attacks on
Aggressive Relaxations of Differential Privacy", Lemma 3.3):

    ask q(phi, m + k): it is noiseless and 0 exactly where the count is at most m   (if m + k < n)
    ask q(phi, m - k): it is noiseless and 1 exactly where the count is above m     (if m - k >= 0)

One of the two can be asked for every m in 0 to n - 1 as soon as n >= 2k. With k = 0 both are the
plain question to a table without protection: the unprotected twin is the same adversary.
"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.noise_detection import NOISY, ONE, ZERO, NoiseRule
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_parameter
from privcore.mechanisms.threshold_queries import Predicates, QueryInterface

_AT_ONCE = 1 << 22  # answers in memory, over all repetitions


class Adversary:
    """Asks an interface, tells noise from no noise, and keeps count of what was asked.

    Args:
        interface: who answers.
        rule: how noise is recognised.
        k: how many records the claimed definition lets change: its group size, 1 for IDP, 0 for a
            table that is not protected.
        epsilon: the claimed budget spent on each decision; a rule that repeats a query splits it.

    Raises:
        InvalidInputError: k below 0, an epsilon that is not above 0, or fewer than 2k records,
            where some counts have no border that could be found.
    """

    def __init__(
        self, interface: QueryInterface, rule: NoiseRule, *, k: int, epsilon: float
    ) -> None:
        check_parameter("epsilon", epsilon)
        if isinstance(k, bool) or not isinstance(k, int) or k < 0:
            raise InvalidInputError("k", k, "it is a whole number, 0 for an unprotected table")
        if interface.records < max(2 * k, 1):
            rule_broken = (
                f"with k = {k} at least 2k = {2 * k} records are needed: in a smaller table every "
                "threshold may get a noisy answer, whatever the count"
            )
            raise InvalidInputError("records", interface.records, rule_broken)
        self.interface = interface
        self.rule = rule
        self.k = k
        self.epsilon = epsilon
        self.queries = 0
        """Number of queries that were answered, repetitions included."""
        self.decisions = 0
        """Number of different decisions about noise among them."""

    @property
    def records(self) -> int:
        """The public number of records."""
        return self.interface.records

    @property
    def claimed_budget(self) -> float:
        """Budget spent by the definition's own accounting: the sum of all epsilons."""
        return self.decisions * self.epsilon

    def signs(self, predicates: Predicates, thresholds: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return `ZERO`, `ONE`, `NOISY` or `QUIET` for each query, shape (queries,).

        Raises:
            TerminalError: the interface refused.
        """
        repetitions = self.rule.repetitions
        most = max(1, _AT_ONCE // repetitions)
        signs = np.empty(predicates.size, dtype=np.int8)
        for first in range(0, predicates.size, most):
            some = slice(first, first + most)
            part = predicates
            if predicates.size > most:
                part = predicates.take(np.arange(predicates.size)[some])
            answers = np.empty((repetitions, part.size), dtype=np.float64)
            for repetition in range(repetitions):
                answers[repetition] = self.interface.answer(
                    part, thresholds[some], epsilon=self.epsilon / repetitions
                )
                self.queries += part.size
            self.decisions += part.size
            signs[some] = self.rule.decide(answers, self.epsilon / repetitions)
        return signs

    def exceeds(self, predicates: Predicates, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell whether more than `counts` records satisfy each predicate, one decision each.

        Lemma 3.3, as this module's docstring has it. Needs a rule that tells a noiseless 0 from a
        noiseless 1.

        Args:
            predicates: what is counted.
            counts: shape (predicates,), each in 0 to n - 1.
        """
        upper = counts + self.k < self.records
        signs = self.signs(predicates, np.where(upper, counts + self.k, counts - self.k))
        return np.asarray(np.where(upper, signs != ZERO, signs == ONE))

    def counts(self, predicates: Predicates, most: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many records satisfy each predicate, shape (predicates,).

        Finds the border between noisy and noiseless answers (Lemma 3.6) by bisection, all
        predicates at once. The two ends come first: most ranges hold no person or every person.
        Where the rule does not tell sides, every window of 2k counts is asked about instead.

        Args:
            predicates: what is counted.
            most: shape (predicates,), what each count is at most.
        """
        if not self.rule.tells_side:
            return self._counts_by_windows(predicates, most)
        low, high = np.zeros_like(most), most.copy()
        for step in range(2 + int(most.max(initial=1)).bit_length()):
            open_ = np.flatnonzero(low < high)
            if not open_.size:
                break
            if step == 0:
                middle = low[open_]
            elif step == 1:
                middle = high[open_] - 1
            else:
                middle = (low[open_] + high[open_]) // 2
            more = self.exceeds(predicates.take(open_), middle)
            low[open_] = np.where(more, middle + 1, low[open_])
            high[open_] = np.where(more, high[open_], middle)
        return low

    def _counts_by_windows(
        self, predicates: Predicates, most: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Ask which window of 2k counts is noisy, then where in it the count lies."""
        if self.k < 1:
            raise InvalidInputError("k", self.k, "a rule that tells no sides needs k >= 1")
        width = 2 * self.k
        windows = -(-most // width)
        owner = np.repeat(np.arange(most.size), windows)
        place = np.arange(owner.size) - np.repeat(np.cumsum(windows) - windows, windows)
        # The last window is moved down to the largest threshold that may be noisy at all.
        thresholds = np.minimum(self.k + width * place, self.records - 1)
        noisy = np.flatnonzero(self.signs(predicates.take(owner), thresholds) == NOISY)
        found, first = np.unique(owner[noisy], return_index=True)
        low, high = np.zeros_like(most), np.zeros_like(most)
        low[found] = width * place[noisy[first]] + 1
        high[found] = np.minimum(low[found] + width - 1, most[found])
        for _ in range(width.bit_length()):
            open_ = np.flatnonzero(low < high)
            if not open_.size:
                break
            middle = (low[open_] + high[open_]) // 2
            upper = middle + self.k < self.records
            thresholds = np.where(upper, middle + self.k, middle - self.k)
            more = (self.signs(predicates.take(open_), thresholds) == NOISY) == upper
            low[open_] = np.where(more, middle + 1, low[open_])
            high[open_] = np.where(more, high[open_], middle)
        return low

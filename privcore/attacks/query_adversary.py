"""An adversary who asks threshold queries, counts them, and reads counts from their noise.

Everything that an attack on local sensitivity needs is one comparison, "do more than m records
satisfy phi?", answered with certainty by one query about noise ("Reconstruction Attacks on
Aggressive Relaxations of Differential Privacy", Lemma 3.3):

    ask q(phi, m + k): it is noiseless and 0 exactly where the count is at most m   (if m + k < n)
    ask q(phi, m - k): it is noiseless and 1 exactly where the count is above m     (if m - k >= 0)

One of the two can be asked for every m in 0 to n - 1 as soon as n >= 2k. With k = 0 both are the
plain question to a table without protection: the unprotected twin is the same adversary.

*Noise* (sections 3.2.1 and 5.1): whether an answer carries it says whether its local sensitivity is
0, and that says something certain about the table (Lemma 3.4), however large the noise and whatever
the claimed epsilon.

*Candidate cells* are those that records of a column may lie in; places cut a list of them in half.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_parameter
from privcore.mechanisms.threshold_queries import Column, Predicates, QueryInterface


@dataclass(frozen=True, slots=True)
class EveryCell:
    """Every cell from `first` to `last`, all as likely."""

    first: int
    last: int

    WIDEST: ClassVar[int] = 1 << 52
    """The cell farthest from 0 that a search looks at."""

    @classmethod
    def of(cls, column: Column) -> "EveryCell":
        """Return the domain of a column with bounds."""
        if column.lower is None or column.upper is None:
            raise InvalidInputError(column.name, None, "a column is searched within bounds")
        return cls(column.lower, column.upper)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.last - self.first + 1

    def cells(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell at each place; at place `size`, the cell after the last."""
        return self.first + places

    def middles(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a place strictly between each low and high: the one in the middle."""
        return (low + high) // 2


@dataclass(frozen=True, slots=True, eq=False)
class SeenCells:
    """Cells that are known to occur, ascending, each as likely as it is frequent.

    Args:
        values: shape (cells,).
        counts: shape (cells,), how many records have each, all above 0.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.values)

    def cells(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell at each place; at place `size`, the cell after the last."""
        return np.asarray(np.append(self.values, self.values[-1] + 1)[places])

    def middles(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place whose two sides hold most nearly as many records."""
        before = np.concatenate([[0], np.cumsum(self.counts)])
        half = (before[low] + before[high] + 1) // 2
        after = np.clip(np.searchsorted(before, half), low + 1, high - 1)
        earlier = np.maximum(after - 1, low + 1)
        nearer = half - before[earlier] < before[after] - half
        return np.asarray(np.where(nearer, earlier, after))


CandidateCells = EveryCell | SeenCells
"""An ascending list of cells; places in it run from 0 to `size`."""


ZERO = np.int8(0)
"""The answer carries no noise and is 0."""
ONE = np.int8(1)
"""The answer carries no noise and is 1."""
NOISY = np.int8(2)
"""The answer carries the noise of a query with sensitivity 1."""
QUIET = np.int8(3)
"""The answer carries the noise of a query with sensitivity 0: it might be 0 or 1."""


@dataclass(frozen=True, slots=True)
class NotZeroOrOne:
    """An answer other than 0 or 1 is noisy; one query each.

    At epsilon 1e-10 the noise is some 10^10 wide: it leaves the answer at 0 or 1 with a probability
    of about 1e-16, and of at most 1 - exp(-2 epsilon) (2e-10) where answers are rounded to
    integers. Also right for a table without protection, whose answers are never noisy.
    """

    repetitions = 1
    tells_side = True

    def decide(
        self,
        answers: NDArray[np.float64],
        epsilon: float,  # noqa: ARG002  # the rule needs no scale
    ) -> NDArray[np.int8]:
        """Return `ZERO`, `ONE`, `NOISY` or `QUIET` for each query, shape (queries,).

        Args:
            answers: shape (repetitions, queries).
            epsilon: the budget that each single answer was given.
        """
        answer = answers[0]
        return np.where(answer == 0.0, ZERO, np.where(answer == 1.0, ONE, NOISY))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Rule by disagreement: answers to a repeated query that are not all the same are noisy.

    For answers rounded to {0, 1}. At small epsilon a noisy answer is a fair coin, so a noisy query
    is taken for a noiseless one with probability 2 * 2^-repetitions: 6.1e-5 at the paper's 15
    (which prints 1e-10 for it; 2 * 2^-34 is the first below). An attack that asks millions of
    queries repeats each 45 times.

    Raises:
        InvalidInputError: fewer than 2 repetitions, which could not disagree.
    """

    repetitions: int = 15
    tells_side = True

    def __post_init__(self) -> None:
        if self.repetitions < 2:
            raise InvalidInputError("repetitions", self.repetitions, "two can disagree, one cannot")

    def decide(
        self,
        answers: NDArray[np.float64],
        epsilon: float,  # noqa: ARG002  # the rule needs no scale
    ) -> NDArray[np.int8]:
        """Return each query's sign; `NotZeroOrOne.decide` has the rest."""
        same = np.all(answers == answers[0], axis=0)
        return np.where(same, np.where(answers[0] > 0.5, ONE, ZERO), NOISY)


@dataclass(frozen=True, slots=True)
class VarianceAbove:
    """Rule by variance: `repetitions` answers whose variance statistic reaches 5 are noisy.

    For mechanisms that always add noise, of scale (1 + sensitivity) / epsilon: `variance_statistic`
    expects 2 at sensitivity 0 and 8 at 1 (Lemma 5.1, where the scale multiplier alpha is 1 or 2).
    The rule is right 80.3%, 98.8% and 100.0% of the time at 10, 100 and 1000 repetitions. It does
    not tell a quiet 0 from a quiet 1.

    Raises:
        InvalidInputError: fewer than 2 repetitions, which have no variance.
    """

    repetitions: int = 1000
    border: float = 5.0
    tells_side = False

    def __post_init__(self) -> None:
        if self.repetitions < 2:
            raise InvalidInputError("repetitions", self.repetitions, "a variance needs 2 answers")

    def decide(self, answers: NDArray[np.float64], epsilon: float) -> NDArray[np.int8]:
        """Return each query's sign; `NotZeroOrOne.decide` has the rest."""
        noisy = variance_statistic(answers, epsilon) >= self.border
        return np.where(noisy, NOISY, QUIET)


NoiseRule = NotZeroOrOne | Disagreement | VarianceAbove
"""An attacker's rule that decides whether an answer is noisy.

It asks each query `repetitions` times, each at this share of its budget; where it `tells_side`, a
noiseless answer is also known to be 0 or 1.
"""


def variance_statistic(answers: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return psi_m of each query: the sample variance of its answers in units of (1 / epsilon)^2.

    Lemma 5.1: with noise of scale alpha / epsilon its distribution depends on alpha alone and its
    mean is 2 alpha^2. (The lemma prints (z_1 + z_m) / m for the sample mean; with the sample mean
    the published accuracies come out, taken literally 82.17% instead of 80.31% at m = 10.)

    Args:
        answers: shape (repetitions, queries), at least 2 repetitions.
        epsilon: the budget of each single answer (the lemma's epsilon / m).
    """
    return np.asarray(np.var(answers * epsilon, axis=0, ddof=1), dtype=np.float64)


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
        step = 0
        while (open_ := np.flatnonzero(low < high)).size:
            if step == 0:
                middle = low[open_]
            elif step == 1:
                middle = high[open_] - 1
            else:
                middle = (low[open_] + high[open_]) // 2
            step += 1
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
        while (open_ := np.flatnonzero(low < high)).size:
            middle = (low[open_] + high[open_]) // 2
            upper = middle + self.k < self.records
            thresholds = np.where(upper, middle + self.k, middle - self.k)
            more = (self.signs(predicates.take(open_), thresholds) == NOISY) == upper
            low[open_] = np.where(more, middle + 1, low[open_])
            high[open_] = np.where(more, high[open_], middle)
        return low

"""Telling noisy answers from noiseless ones, whatever the claimed epsilon.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", sections 3.2.1 and 5.1.
Whether an answer carries noise says whether its local sensitivity is 0, and that says something
certain about the table (Lemma 3.4), however large the noise.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

ZERO = np.int8(0)
"""The answer carries no noise and is 0."""
ONE = np.int8(1)
"""The answer carries no noise and is 1."""
NOISY = np.int8(2)
"""The answer carries the noise of a query with sensitivity 1."""
QUIET = np.int8(3)
"""The answer carries the noise of a query with sensitivity 0: it might be 0 or 1."""


class NoiseRule(Protocol):
    """An attacker's rule that decides whether an answer is noisy."""

    @property
    def repetitions(self) -> int:
        """Number of times that each query is asked; each time at this share of its budget."""

    @property
    def tells_side(self) -> bool:
        """True if a noiseless answer is also known to be 0 or 1."""

    def decide(self, answers: NDArray[np.float64], epsilon: float) -> NDArray[np.int8]:
        """Return `ZERO`, `ONE`, `NOISY` or `QUIET` for each query, shape (queries,).

        Args:
            answers: shape (repetitions, queries).
            epsilon: the budget that each single answer was given.
        """


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
        """Return each query's sign; `NoiseRule.decide` has the rest."""
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
        """Return each query's sign; `NoiseRule.decide` has the rest."""
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
        """Return each query's sign; `NoiseRule.decide` has the rest."""
        noisy = variance_statistic(answers, epsilon) >= self.border
        return np.where(noisy, NOISY, QUIET)


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

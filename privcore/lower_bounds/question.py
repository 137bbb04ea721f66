"""What an audit asks, and what it needs to conclude anything: records, and a leak that it sees.

A choice of the number of guesses is a value, fixed before today's game is played.

Without numpy: settings and the command line name secrets and guesses, too.
"""

from dataclasses import dataclass
from enum import StrEnum

from privcore.exceptions import InvalidInputError


class Secret(StrEnum):
    """Secret of one record that an audit tries to infer, and what a claim for it lets be replaced.

    LABEL: the label. Every guarantee speaks of it.
    ATTRIBUTE: one column of the features. A guarantee for labels takes features for public and
        promises nothing; one for whole records promises at least as much as for the record.
    MEMBERSHIP: whether the record was trained on at all: the whole record is replaced by another of
        the same source. Only a guarantee for whole records speaks of it.
    RELEASED: the label, of the mechanism that privatises it before training: no model is asked.
    """

    LABEL = "label"
    ATTRIBUTE = "attribute"
    MEMBERSHIP = "membership"
    RELEASED = "released_labels"


def named(model: str, secret: str) -> str:
    """Return the model, and the secret that was tested if it is not the label."""
    return model if secret == Secret.LABEL else f"{model} ({secret})"


MINIMUM_RECORDS = 200
"""Training records."""
MINIMUM_CONTROL_RECORDS = 30
"""Holdout records."""


def leak_to_be_seen(epsilon: float) -> float:
    """Return the leak that a conclusive audit of the claim `epsilon` sees.

    Twice the claim, at most 1 more, and at least 0.5 more.

    >>> leak_to_be_seen(0.25), leak_to_be_seen(0.5), leak_to_be_seen(1.0), leak_to_be_seen(2.0)
    (0.75, 1.0, 2.0, 3.0)
    """
    return max(min(2.0 * epsilon, epsilon + 1.0), epsilon + 0.5)


def refutes(epsilon_lower: float, epsilon: float) -> bool:
    """Return whether a bound refutes a declared epsilon.

    A bound above 0 rejects every loss up to its own value, this one included, and what is declared
    is one of the points that it is looked for at (`Stakes.points`): so a bound that equals the
    declaration refutes it. A bound of 0 is silence.

    >>> refutes(1.0, 1.0), refutes(0.99, 1.0), refutes(0.0, 0.0)
    (True, False, False)
    """
    return epsilon_lower > 0.0 and epsilon_lower >= epsilon


def conclusive(epsilon: float, *, epsilon_ceiling: float | None, sees_from: float | None) -> bool:
    """Return whether evidence that refutes nothing of a claim would probably have refuted it.

    A perfect attack could have refuted the claim (the ceiling), and a leak of
    `leak_to_be_seen` would probably have refuted it. A holdout of a few records fails the second.

    Args:
        epsilon: the claim's, above 0 or 0.
        epsilon_ceiling: None where there is no figure.
        sees_from: None where no leak would have been seen.

    >>> conclusive(1.0, epsilon_ceiling=3.0, sees_from=1.8)
    True
    >>> conclusive(1.0, epsilon_ceiling=0.8, sees_from=None)
    False
    """
    if epsilon_ceiling is None or sees_from is None:
        return False
    return refutes(epsilon_ceiling, epsilon) and sees_from <= leak_to_be_seen(epsilon)


@dataclass(frozen=True, slots=True)
class Grid:
    """The best of K fractions, each tested at significance/K.

    Valid by the union bound: the chance that any of K tests is wrong is at most the sum of their
    significances, so the best of them may be reported, whichever it is. One fraction, agreed
    beforehand, is tested at the whole significance.

    >>> Grid(fractions=(0.1, 1.0)).fractions
    (0.1, 1.0)
    """

    fractions: tuple[float, ...] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

    def __post_init__(self) -> None:
        if not self.fractions or not all(0.0 < one <= 1.0 for one in self.fractions):
            raise InvalidInputError(
                "fractions", self.fractions, "each lies in (0, 1] and there is one"
            )

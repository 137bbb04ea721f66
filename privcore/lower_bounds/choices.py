"""Choice of the adversary's number of guesses: values, fixed before today's game is played."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class Grid:
    """The best of K fractions, each tested at significance/K.

    Valid by the union bound: the chance that any of K tests is wrong is at most the sum of their
    significances, so the best of them may be reported, whichever it is.

    >>> Grid(fractions=(0.1, 1.0)).fractions
    (0.1, 1.0)
    """

    fractions: tuple[float, ...] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    name: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        check_fractions(self.fractions)


@dataclass(frozen=True, slots=True)
class Fixed:
    """One fraction, agreed beforehand, tested at the whole significance.

    Valid because there is one test: nothing was chosen by its outcome.

    >>> Fixed(0.1)
    Fixed(fraction=0.1)
    """

    fraction: float
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        check_fractions(self.fractions)

    @property
    def fractions(self) -> tuple[float, ...]:
        """The one fraction."""
        return (self.fraction,)


Choice = Grid | Fixed


def check_fractions(fractions: tuple[float, ...]) -> None:
    """Raise `InvalidInputError` unless there is a fraction and each lies in (0, 1]."""
    if not fractions or not all(0.0 < fraction <= 1.0 for fraction in fractions):
        raise InvalidInputError("fractions", fractions, "each lies in (0, 1] and there is one")


def guess_counts(records: int, fractions: tuple[float, ...]) -> NDArray[np.int64]:
    """Return how many guesses each fraction of `records` is: at least 1 where there are records."""
    return np.maximum(np.floor(np.array(fractions) * records + 1e-9), min(records, 1)).astype(
        np.int64
    )

"""Scores that the adversary makes of two models' probabilities, for each label it may be shown.

Positive: "this is the training label"; negative: "this is the counterfactual". The absolute value
is the confidence. A score is a fixed function of the two probabilities, chosen before the game.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


@dataclass(frozen=True, slots=True)
class PaperScore:
    """`(M(x)[y] - M'(x)[y]) (1 - M'(x)[y])^power`.

    "Observational Auditing of Label Privacy", section 6.2: favours labels that the proxy
    finds unlikely.

    >>> PaperScore()
    PaperScore(power=2.0)
    """

    power: float = 2.0
    name: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        if not 0.0 <= self.power < np.inf:
            raise InvalidInputError("power", self.power, "it is a number of at least 0")

    def __call__(
        self, target: NDArray[np.float64], proxy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score of every label; all three arrays have shape (records, classes)."""
        scores: NDArray[np.float64] = (target - proxy) * (1.0 - proxy) ** self.power
        return scores


@dataclass(frozen=True, slots=True)
class LogRatioScore:
    """`log M(x)[y] - log M'(x)[y]`: the Bayes-optimal order for randomized response.

    There the target's probabilities are the exact posterior given the noisy label, so the ratio is
    the adversary's likelihood ratio. Probabilities are held above `floor`, which bounds the score.

    >>> LogRatioScore()
    LogRatioScore(floor=1e-12)
    """

    floor: float = 1e-12
    name: ClassVar[str] = "log_ratio"

    def __post_init__(self) -> None:
        if not 0.0 < self.floor < 1.0:
            raise InvalidInputError("floor", self.floor, "a floor of probabilities lies in (0, 1)")

    def __call__(
        self, target: NDArray[np.float64], proxy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score of every label; all three arrays have shape (records, classes)."""
        scores: NDArray[np.float64] = np.log(np.maximum(target, self.floor)) - np.log(
            np.maximum(proxy, self.floor)
        )
        return scores


Score = PaperScore | LogRatioScore


def score_named(name: str, *, power: float = 2.0) -> Score:
    """Return the score that a plan names: "power" (the paper's, with `power`) or "log_ratio".

    Raises:
        InvalidInputError: another name, or a power below 0.
    """
    if name == PaperScore.name:
        return PaperScore(power)
    if name == LogRatioScore.name:
        return LogRatioScore()
    names = f"{PaperScore.name} or {LogRatioScore.name}"
    raise InvalidInputError("score", name, f"it is {names}")

"""Weights of sampled rows: of both arms they have to say the same share that training kept.

A holdout row of a huge weight is left out, as if training had never kept one like it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.looks.look import Findings, Look, Seen
from workers.remark import Remark, RemarkKind, remarked

_MOST, _PARTS = 4096.0, 64
"""Largest weight that is told from larger ones, and parts of one: whole numbers add to the bit."""
_CERTAIN, _LEAST = 4.5, 0.02
"""Standard errors, and share of the holdout rows, from which on a difference is told."""


@dataclass(frozen=True, slots=True)
class SamplingWeights(Look):
    """Counts of rows where training sampled by a column of weights; they add.

    Attributes:
        held: holdout rows with a label.
        kept: those of them that sampling keeps.
        trained: training rows.
        weight: sum of their weights, in 64ths.
        square: sum of the squares of these.
    """

    held: int = 0
    kept: int = 0
    trained: int = 0
    weight: int = 0
    square: int = 0

    @classmethod
    def see(cls, seen: Seen) -> "SamplingWeights | None":
        """Return the counts of a batch; None where no column of weights says what was kept."""
        sampling, playing = seen.plan.sampling, seen.playing
        if sampling is None or sampling.weight is None or playing.rates is None:
            return None
        weights = 1.0 / playing.rates[playing.training]
        return cls.of(weights, held=playing.unsampled, kept=playing.holdout.size)

    @classmethod
    def of(cls, weights: NDArray[np.float64], *, held: int, kept: int) -> "SamplingWeights":
        """Return the counts of rows, given the weights of the training rows."""
        parts = np.rint(np.minimum(weights, _MOST) * _PARTS).astype(np.int64)
        return cls(held, kept, parts.size, int(parts.sum()), int(np.dot(parts, parts)))

    def remarks(self, found: Findings) -> tuple[Remark, ...]:
        """Return that the arms' weights contradict each other, where they do."""
        return remarked(RemarkKind.POWER_LOST, self.sentence())

    def sentence(self) -> str:
        """Return that the arms' weights contradict each other, or "".

        Training keeps a row of weight w with probability 1/w. So the share of all rows that it kept
        is 1 over the mean weight of training rows, and the same share of the holdout is kept here.
        """
        if not (self.held and self.trained):
            return ""
        mean = self.weight / self.trained
        variance = max(self.square / self.trained - mean**2, 0.0)
        said, seen = _PARTS / mean, self.kept / self.held
        error = math.sqrt(
            seen * (1.0 - seen) / self.held + variance * (said / mean) ** 2 / self.trained
        )
        if abs(said - seen) < max(_LEAST, _CERTAIN * error):
            return ""
        return (
            f"The weights of training records say that training kept {said:.1%} of its rows, and "
            f"those of holdout records that it would have kept {seen:.1%}. So the weights of one "
            "arm are wrong, or its rows were not drawn like the other's; the bound may be smaller "
            "than the leak: see how the column of sampling.weight is written."
        )

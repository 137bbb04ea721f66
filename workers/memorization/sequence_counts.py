"""Counts of sequences: they add, and hold no sequence, only where the risky ones are."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.labels.bad_records import BadRecords

LISTED = 200
"""The most training sequences that are listed."""

LOSS_EDGES = np.arange(-60.0, 60.5, 0.5)
"""Calibrated loss in nats; what lies beyond is counted in the outermost bins."""

LIKELY_EDGES = np.arange(-60.0, 1.0, 1.0)
"""log10 of the probability of being generated; never generated counts as below -60."""

TRAIN_ARM, HOLDOUT_ARM = 0, 1


@dataclass(frozen=True, slots=True, order=True)
class AtRisk:
    """A training sequence that an attacker may generate; ordered from the best known one on.

    Attributes:
        calibrated_loss: nats, of the target less that of the reference model.
        file: below the partition.
        row_group: in the file.
        row: in the row group.
        log10_probability: of one sample being just this sequence; 10^-x takes 10^x tries.
        secrecy_bits: log2(1/p) under plain sampling from the target.
        reference_bits: the same from the reference model, which never saw it.
    """

    calibrated_loss: float
    file: str
    row_group: int
    row: int
    log10_probability: float
    secrecy_bits: float
    reference_bits: float


@dataclass(frozen=True, slots=True, eq=False)
class MemorizationTally:
    """Counts of both arms, and the training sequences at risk.

    Attributes:
        sequences: shape (2,), training and holdout sequences.
        counts: shape (2, likely bins, loss bins), by `LIKELY_EDGES` and `LOSS_EDGES`.
        tokens: of all of them.
        at_risk: the training sequences within reach with the smallest calibrated loss.
        within_reach: how many training sequences are within reach.
        bad: sequences that were left out.
    """

    sequences: NDArray[np.int64]
    counts: NDArray[np.int64]
    tokens: int
    at_risk: tuple[AtRisk, ...]
    within_reach: int
    bad: BadRecords

    @classmethod
    def zero(cls, bad: BadRecords | None = None) -> "MemorizationTally":
        """Return no sequences, the identity of addition; or none that is good."""
        shape = (2, LIKELY_EDGES.size + 1, LOSS_EDGES.size + 1)
        counts = np.zeros(shape, dtype=np.int64)
        nobody = np.zeros(2, dtype=np.int64)
        return cls(nobody, counts, 0, (), 0, bad or BadRecords.none())

    @classmethod
    def of(
        cls,
        arm: int,
        log10_probability: NDArray[np.float64],
        calibrated_loss: NDArray[np.float64],
        *,
        tokens: int,
        at_risk: list[AtRisk],
    ) -> "MemorizationTally":
        """Return the counts of some sequences of one arm."""
        tally = cls.zero()
        places = np.searchsorted(LIKELY_EDGES, log10_probability, side="right")
        losses = np.searchsorted(LOSS_EDGES, calibrated_loss, side="right")
        np.add.at(tally.counts[arm], (places, losses), 1)
        tally.sequences[arm] = log10_probability.size
        listed = tuple(heapq.nsmallest(LISTED, at_risk))
        return cls(tally.sequences, tally.counts, tokens, listed, len(at_risk), tally.bad)

    def __add__(self, other: "MemorizationTally") -> "MemorizationTally":
        """Return what both counted."""
        return MemorizationTally(
            self.sequences + other.sequences,
            self.counts + other.counts,
            self.tokens + other.tokens,
            tuple(heapq.nsmallest(LISTED, (*self.at_risk, *other.at_risk))),
            self.within_reach + other.within_reach,
            self.bad + other.bad,
        )

    def losses(self, arm: int) -> NDArray[np.int64]:
        """Return how many sequences of an arm have a calibrated loss in each bin."""
        return np.asarray(self.counts[arm].sum(axis=0))

    def p_value(self, calibrated_loss: float) -> float:
        """Return how probable so small a loss is for a sequence that training never saw, at most.

        (1 + holdout sequences with at most this loss) / (1 + holdout sequences): exact if the
        sequence, had training not seen it, were exchangeable with the holdout's. Losses are known
        to half a nat, and the whole bin counts. It is about one sequence named beforehand: of
        1,000 unremarkable ones, ten are below 0.01.
        """
        last = int(np.searchsorted(LOSS_EDGES, calibrated_loss, side="right"))
        held = int(self.losses(HOLDOUT_ARM)[: last + 1].sum())
        return (1 + held) / (1 + int(self.sequences[HOLDOUT_ARM]))

"""One pass over a table's sequences: parts of it, judged side by side and added up."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import (
    PLAIN,
    Sampling,
    calibrated_loss,
    sampling_log_probability,
    secrecy_bits,
)
from privcore.exceptions import InvalidInputError
from workers.exceptions import Reason, refusing_probabilities
from workers.executors import Executor
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN
from workers.labels.shards import BadRecords
from workers.memorization.language_models import END, ModelFile, NgramCounts

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
        row: of the table, counted from 0.
        log10_probability: of one sample being just this sequence; 10^-x takes 10^x tries.
        secrecy_bits: log2(1/p) under plain sampling from the target.
        reference_bits: the same from the reference model, which never saw it.
    """

    calibrated_loss: float
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
        at_risk: those of the training sequences within reach with the smallest calibrated loss.
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
        counts = np.zeros((2, LIKELY_EDGES.size + 1, LOSS_EDGES.size + 1), dtype=np.int64)
        return cls(np.zeros(2, dtype=np.int64), counts, 0, (), 0, bad or BadRecords.none())

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


_PART_ROWS = 256
_LONGEST = 4096
_LARGEST_ID = 0x10FFFF
"""Token ids are kept as characters, of which there are so many."""
_LOG_10 = float(np.log(10.0))
_ROW = "row of the table"


@dataclass(frozen=True, slots=True)
class MemorizationPass:
    """All that the numbers depend on, besides the rows."""

    column: str
    target: ModelFile
    reference: ModelFile
    sampling: Sampling = PLAIN
    reach: float = 6.0


def scan_sequences(
    rows: pl.DataFrame,
    shared: MemorizationPass,
    executor: Executor,
    *,
    on_done: Callable[[int], None] = lambda _: None,
) -> MemorizationTally:
    """Return what both models say of the sequences of the splits `train` and `holdout`.

    `on_done` hears how many rows are done.

    Raises:
        InvalidInputError: a column is missing, or holds no sequences.
    """
    check_sequences(rows, shared.column)
    kept = rows.select(shared.column, SPLIT).with_row_index(_ROW)
    parts = list(kept.iter_slices(_PART_ROWS))
    total = MemorizationTally.zero()
    for done, found in enumerate(executor.map(_scan_part, shared, parts), start=1):
        total += found
        on_done(min(done * _PART_ROWS, rows.height))
    return total


def count_ngrams(rows: pl.DataFrame, column: str, *, order: int, split: str) -> NgramCounts:
    """Return the n-gram counts of a table's sequences of one split.

    Raises:
        InvalidInputError: a column is missing, or holds no sequences, or the split has none.
    """
    check_sequences(rows, column)
    chosen = rows.filter(pl.col(SPLIT).cast(pl.String) == split)[column]
    counts = NgramCounts.of((one for one in tokens_of(chosen) if one is not None), order)
    if not counts.counts:
        rule = f"a row of it has text that is not empty, or token ids of 0 to {_LARGEST_ID:,}"
        raise InvalidInputError("--split", split, rule)
    return counts


def check_sequences(rows: pl.DataFrame, column: str) -> None:
    """Raise `InvalidInputError` unless the table has sequences in a column, and a split."""
    for name in (column, SPLIT):
        if name not in rows.columns:
            rule = f"the table's columns are {', '.join(rows.columns)}"
            raise InvalidInputError("column", name, rule)
    kind = rows[column].dtype
    ids = isinstance(kind, pl.List) and kind.inner is not None and kind.inner.is_integer()
    if not ids and kind not in {pl.String, pl.Categorical}:
        rule = f"it is stored as {kind}: sequences are text, or lists of token ids"
        raise InvalidInputError("column", column, rule)


def _scan_part(shared: MemorizationPass, rows: pl.DataFrame) -> MemorizationTally:
    total = MemorizationTally.zero()
    for arm, word in ((TRAIN_ARM, TRAIN), (HOLDOUT_ARM, HOLDOUT)):
        likely, losses, tokens, at_risk = [], [], 0, []
        chosen = rows.filter(pl.col(SPLIT).cast(pl.String) == word)
        for row, sequence in zip(chosen[_ROW], tokens_of(chosen[shared.column]), strict=True):
            if sequence is None or len(sequence) > _LONGEST:
                total += _left_out(shared, row, sequence)
                continue
            found = _judge(shared, sequence, row)
            likely.append(found.log10_probability)
            losses.append(found.calibrated_loss)
            tokens += len(sequence)
            if arm == TRAIN_ARM and found.log10_probability >= -shared.reach:
                at_risk.append(found)
        total += MemorizationTally.of(
            arm, np.array(likely), np.array(losses), tokens=tokens, at_risk=at_risk
        )
    return total


def _judge(shared: MemorizationPass, sequence: NDArray[np.int64], row: int) -> AtRisk:
    """Return how probable one sequence is, and how well the target knows it."""
    with refusing_probabilities():
        rows = shared.target.log_probabilities(sequence)
        sampled = sampling_log_probability(rows, sequence, sampling=shared.sampling)
        plain = sampled
        if shared.sampling != PLAIN:
            plain = sampling_log_probability(rows, sequence)
        other = sampling_log_probability(shared.reference.log_probabilities(sequence), sequence)
    return AtRisk(
        float(calibrated_loss(plain, other)),
        row,
        log10_probability=sampled / _LOG_10,
        secrecy_bits=float(secrecy_bits(plain)),
        reference_bits=float(secrecy_bits(other)),
    )


def _left_out(
    shared: MemorizationPass, row: int, sequence: NDArray[np.int64] | None
) -> MemorizationTally:
    if sequence is None:
        reason, what = Reason.FEATURE_INVALID, "is missing or empty, or has ids that are none"
    else:
        reason, what = Reason.TOO_LARGE, f"has more than {_LONGEST} tokens"
    sentence = f"The sequence in {shared.column!r} of row {row} {what}."
    return MemorizationTally.zero(BadRecords.at(("", 0, row), 1, reason, sentence))


def tokens_of(series: pl.Series) -> Iterator[NDArray[np.int64] | None]:
    """Yield each row's tokens: text as its UTF-8 bytes and an end, lists of ids as they are.

    One after the other: of text that is packed well, all tokens at once could take gigabytes.
    """
    if isinstance(series.dtype, pl.List):
        for ids in (series[place] for place in range(len(series))):
            known = pl.Series([] if ids is None else ids, dtype=pl.Int64, strict=False)
            whole = known.len() and known.is_between(0, _LARGEST_ID).fill_null(value=False).all()
            yield known.to_numpy() if whole else None
        return
    for text in (series[place] for place in range(len(series))):
        content = np.frombuffer((text or "").encode(), dtype=np.uint8)
        yield np.append(content, END).astype(np.int64) if content.size else None

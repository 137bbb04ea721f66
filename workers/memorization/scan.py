"""One pass over a day's sequences: work units, spread as those of a label audit, added up."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privcore.attacks import (
    PLAIN,
    Sampling,
    calibrated_loss,
    sampling_log_probability,
    secrecy_bits,
)
from workers.exceptions import NotEvaluableError, Reason, refusing_probabilities
from workers.executors import Executor
from workers.labels.columns import SPLIT, Batch, batches_of
from workers.labels.parquet import Footer, read_footer
from workers.labels.shards import BadRecords, Partition, Piece, WorkUnit
from workers.lake import limits
from workers.lake.layout import Lake
from workers.memorization.language_models import END, LanguageModel, ModelFile, NgramCounts

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


_BATCH_ROWS = 64
_LARGEST_ID = 0x10FFFF
"""Token ids are kept as characters, of which there are so many."""
_LOG_10 = float(np.log(10.0))


@dataclass(frozen=True, slots=True)
class MemorizationPass:
    """All that the numbers depend on."""

    lake: Lake
    partition: Partition
    column: str
    target: ModelFile
    reference: ModelFile
    sampling: Sampling = PLAIN
    reach: float = 6.0
    longest: int = 4096


def scan_sequences(
    shared: MemorizationPass,
    executor: Executor,
    *,
    on_done: Callable[[str], None] = lambda _: None,
) -> MemorizationTally:
    """Return what both models say of all sequences of a day."""
    total = executor.fold(_scan_unit, shared, shared.partition.work_units, on_done=on_done)
    return MemorizationTally.zero() if total is None else total


def count_ngrams(
    lake: Lake, partition: Partition, column: str, *, order: int, split: str, executor: Executor
) -> NgramCounts:
    """Return the n-gram counts of a day's sequences of one split.

    Raises:
        NotEvaluableError: no file has such a sequence, or one of them cannot be read.
    """
    shared = _Counting(lake, partition, column, order, split)
    total = executor.fold(_count_unit, shared, partition.work_units, on_done=lambda _: None)
    if total is None or not total.counts:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"No row of {partition.dataset} has the split {split!r} and a sequence in {column!r}: "
            f"text that is not empty, or token ids of 0 to {_LARGEST_ID:,}.",
        )
    return total


@dataclass(frozen=True, slots=True)
class _Counting:
    """Inputs that a worker needs to count."""

    lake: Lake
    partition: Partition
    column: str
    order: int
    split: str


def _count_unit(shared: _Counting, unit: WorkUnit) -> tuple[str, NgramCounts]:
    total = NgramCounts.of([], shared.order)
    for piece in unit:
        for batch in _batches(shared.lake, shared.partition, piece, shared.column):
            split = batch.column(SPLIT).cast(pl.String)
            wanted = np.flatnonzero((split == shared.split).fill_null(value=False).to_numpy())
            sequences = _tokens(batch, shared.column, wanted)
            known = (each for each in sequences if each is not None)
            total += NgramCounts.of(known, shared.order)
    return unit[0].file, total


def _scan_unit(shared: MemorizationPass, unit: WorkUnit) -> tuple[str, MemorizationTally]:
    total = MemorizationTally.zero()
    for piece in unit:
        try:
            for batch in _batches(shared.lake, shared.partition, piece, shared.column):
                total += _scan_batch(shared, batch)
        except NotEvaluableError as error:
            place = (piece.file, piece.start, 0)
            bad = BadRecords.at(place, 0, error.reason, error.sentence, fatal=True)
            total += MemorizationTally.zero(bad)
    return unit[0].file, total


def _batches(lake: Lake, partition: Partition, piece: Piece, column: str) -> Iterator[Batch]:
    """Yield the rows of a piece, batch by batch."""
    path = partition.path(piece.file)
    columns = [column, SPLIT]
    footer = read_footer(lake, path, columns, listed=partition.file(piece.file))
    _check(footer, path, columns)
    # Text stays encoded: spelled out, a value that many rows share could take gigabytes.
    yield from batches_of(
        lake, partition, piece, footer, columns, rows=_BATCH_ROWS, encoded=set(columns)
    )


def _check(footer: Footer, path: str, columns: list[str]) -> None:
    for column in columns:
        if footer.names.count(column) != 1:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID,
                f"{path} has {footer.names.count(column)} columns named {column!r}, and needs one.",
            )
    largest = max((group.unpacked for group in footer.groups), default=0)
    if largest > limits.SEQUENCE_BYTES:
        raise NotEvaluableError(
            Reason.TOO_LARGE,
            f"A row group of {path} unpacks to {largest:,} bytes of sequences, more than the "
            f"{limits.SEQUENCE_BYTES:,} that are read at once: write smaller row groups.",
        )


def _scan_batch(shared: MemorizationPass, batch: Batch) -> MemorizationTally:
    """Return what both models say of a batch."""
    file, group, start = batch.place
    models = (shared.target.load(), shared.reference.load())
    total = MemorizationTally.zero()
    for arm, chosen in zip((TRAIN_ARM, HOLDOUT_ARM), batch.arms(), strict=True):
        likely, losses, tokens, at_risk = [], [], 0, []
        rows = np.flatnonzero(chosen)
        for row, sequence in zip(rows, _tokens(batch, shared.column, rows), strict=True):
            place = (file, group, start + int(row))
            if sequence is None or len(sequence) > shared.longest:
                total += _left_out(shared, batch.path, place, sequence)
                continue
            found = _judge(shared, models, sequence, place)
            likely.append(found.log10_probability)
            losses.append(found.calibrated_loss)
            tokens += len(sequence)
            if arm == TRAIN_ARM and found.log10_probability >= -shared.reach:
                at_risk.append(found)
        total += MemorizationTally.of(
            arm, np.array(likely), np.array(losses), tokens=tokens, at_risk=at_risk
        )
    return total


def _judge(
    shared: MemorizationPass,
    models: tuple[LanguageModel, LanguageModel],
    sequence: NDArray[np.int64],
    place: tuple[str, int, int],
) -> AtRisk:
    """Return how probable one sequence is, and how well the target knows it."""
    with refusing_probabilities():
        rows = models[0].log_probabilities(sequence)
        sampled = sampling_log_probability(rows, sequence, sampling=shared.sampling)
        plain = sampled
        if shared.sampling != PLAIN:
            plain = sampling_log_probability(rows, sequence)
        other = sampling_log_probability(models[1].log_probabilities(sequence), sequence)
    return AtRisk(
        float(calibrated_loss(plain, other)),
        *place,
        log10_probability=sampled / _LOG_10,
        secrecy_bits=float(secrecy_bits(plain)),
        reference_bits=float(secrecy_bits(other)),
    )


def _left_out(
    shared: MemorizationPass,
    path: str,
    place: tuple[str, int, int],
    sequence: NDArray[np.int64] | None,
) -> MemorizationTally:
    if sequence is None:
        reason, what = Reason.FEATURE_INVALID, "is missing or empty, or has ids that are none"
    else:
        reason, what = Reason.TOO_LARGE, f"has more than {shared.longest} tokens"
    sentence = f"A sequence in {shared.column!r} of {path} {what}."
    return MemorizationTally.zero(BadRecords.at(place, 1, reason, sentence))


def _tokens(
    batch: Batch, column: str, rows: NDArray[np.int64]
) -> Iterator[NDArray[np.int64] | None]:
    """Yield some rows' tokens: text as its UTF-8 bytes and an end, lists of ids as they are.

    One after the other: of text that is packed well, all tokens at once could take gigabytes.
    """
    values = batch.table[column]
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        for value in (values[int(row)] for row in rows):
            text = value.value if isinstance(value, pa.DictionaryScalar) else value
            content = np.frombuffer(text.as_buffer() or b"", dtype=np.uint8)  # UTF-8 or not
            yield np.append(content, END).astype(np.int64) if content.size else None
        return
    series = batch.column(column)
    if isinstance(series.dtype, pl.List) and pa.types.is_integer(kind.value_type):
        for ids in (series[int(row)] for row in rows):
            known = pl.Series([] if ids is None else ids, dtype=pl.Int64, strict=False)
            whole = known.len() and known.is_between(0, _LARGEST_ID).fill_null(value=False).all()
            yield known.to_numpy() if whole else None
        return
    raise NotEvaluableError(
        Reason.FEATURE_INVALID,
        f"{batch.path} stores {column!r} as {kind}: sequences are text, or lists of token ids.",
    )

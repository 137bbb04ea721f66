"""Counts of one arm of a batch: its game, both models' odds, scores and slices, or its persons."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LabelCounts,
    LabelFit,
    OddsTally,
    ScoredRecords,
    ScoreTally,
    SliceTallies,
    StudentTallies,
    Tally,
    UnitChoices,
    draw_counterfactuals,
    folds_of,
    label_counts,
    label_fit,
    odds_cells,
    odds_tally,
    replay,
    score_distribution,
    score_named,
    slice_tallies,
    stream_key,
    unit_records,
    unread_odds,
)
from privcore.lower_bounds import Secret
from workers.labels.columns import Batch
from workers.scan.partial_results import MAXIMUM_SLICES, Game, LabelPass, of_one_day
from workers.scan.players import row_folds
from workers.sources.source import SharedScores


@dataclass(frozen=True, slots=True, eq=False)
class AgainstStudent:
    """Counts of some rows against the student.

    Attributes:
        cells: shape (rows,), where each counts in the odds (`odds_cells`).
        labels: by what the proxy and its student say of each.
    """

    cells: NDArray[np.int64]
    labels: LabelCounts

    def tallies(self, day: int, days: int) -> StudentTallies:
        """Return the tallies of rows of one of several days."""
        return StudentTallies(of_one_day(OddsTally.of_cells(self.cells), day, days), self.labels)


def against_student(
    game: Game,
    batch: Batch,
    scored: tuple[NDArray[np.float64], NDArray[np.float64]],
    labels: NDArray[np.integer],
    rows: NDArray[np.int64],
    *,
    day: int,
) -> AgainstStudent | None:
    """Return what some rows come to against the student; None where there is none.

    Args:
        game: whose student is asked.
        batch: that holds the rows.
        scored: of these rows, shape (rows, classes): what target and proxy say.
        labels: of these rows, class indices.
        rows: shape (rows,), their places in the batch.
        day: number of the batch's day among the game's.
    """
    if game.student is None:
        return None
    folds = row_folds(game, batch, rows)
    target, proxy = scored
    said = game.student.probabilities(batch, rows, folds)
    days = len(game.source.days)
    counted = label_counts(proxy, labels, student=said[:, 1], group=day, groups=days)
    return AgainstStudent(odds_cells(target, said[:, 0], labels), counted)


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """A batch of a game with what target and proxy say of its rows."""

    game: Game
    batch: Batch
    records: ScoredRecords


def scored_batch(
    shared: LabelPass,
    game: Game,
    batch: Batch,
    scores: SharedScores,
    labels: NDArray[np.int64],
) -> ScoredBatch:
    """Return all of a batch's rows as the game's models see them."""
    target, proxy = game.source.probabilities(batch, scores)
    file, _, first = batch.place
    records = ScoredRecords(
        target,
        proxy,
        labels,
        key=_stream(shared, game, batch),
        indices=np.arange(labels.size) + first,
        group=shared.partition.group(file),
    )
    return ScoredBatch(game, batch, records)


def persons_of(
    scored: ScoredBatch, people: NDArray[np.str_], rows: NDArray[np.int64], unit_key: int
) -> UnitChoices:
    """Return the records of each person of an arm that play.

    Args:
        scored: the batch.
        people: shape (rows of the batch,), whose each row is.
        rows: of the arm, their places in the batch.
        unit_key: the stream of the audit's privacy units, the same in every shard.
    """
    fitted = scored.game.student

    def student(units: NDArray[np.uint64]) -> NDArray[np.float64]:
        assert fitted is not None  # noqa: S101  # else not called
        return fitted.probabilities(scored.batch, rows, folds_of(units))

    return unit_records(
        scored.records.of(rows),
        people[rows],
        unit_key=unit_key,
        student=None if fitted is None else student,
        # In public, no label may decide anything, and it is fitted to rows whose label can be read.
        student_chooses=scored.game.plan.epsilon_public is None,
    )


@dataclass(frozen=True, slots=True)
class PlayedArm:
    """Results of the training or the holdout rows of a batch."""

    tally: Tally
    odds: OddsTally
    scores: ScoreTally
    proxy_fit: LabelFit
    slices: tuple[SliceTallies | None, ...]
    student: StudentTallies | None = None
    labels: LabelCounts | None = None


def play_arm(
    scored: ScoredBatch,
    rows: NDArray[np.int64],
    groupings: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    *,
    control: bool,
) -> PlayedArm:
    """Return what the rows of one arm come to.

    Args:
        scored: the batch.
        rows: of the arm, their places in the batch.
        groupings: of each division of all rows, the values and each row's index into them.
        control: whether these are the holdout's rows.
    """
    game, batch, some = scored.game, scored.batch, scored.records.of(rows)
    target, proxy, labels, day = some.target, some.proxy, some.labels, some.group
    plan = game.plan
    repetitions, score = plan.repetitions, score_named(plan.score, power=plan.power)
    fit = _proxy_fit(game, some)
    if plan.secret is Secret.MEMBERSHIP:
        # Its game is of pairs, which are made once all records are counted.
        odds = odds_tally(target, proxy, labels)
        return PlayedArm(Tally.zero(repetitions), odds, ScoreTally.zero(), fit, ())
    student = against_student(game, batch, (target, proxy), labels, rows, day=day)
    dealt = draw_counterfactuals(
        target, proxy, labels, score=score, key=some.key, indices=some.indices
    )
    cells = odds_cells(target, proxy, labels)
    references = [cells] if student is None else [cells, student.cells]
    sliced = tuple(
        None
        if len(values) > MAXIMUM_SLICES
        else slice_tallies(
            dealt,
            references,
            groups[rows],
            values=values,
            control=control,
            repetitions=repetitions,
        )
        for values, groups in groupings
    )
    many, days = proxy.shape[1] > 2, len(game.source.days)
    return PlayedArm(
        replay(dealt, repetitions=repetitions),
        OddsTally.of_cells(cells),
        score_distribution(dealt),
        fit,
        sliced,
        None if student is None else student.tallies(day, days),
        label_counts(proxy, labels, group=day, groups=days) if many else None,
    )


def _proxy_fit(game: Game, records: ScoredRecords) -> LabelFit:
    """Return how well the proxy held an arm's labels, where that is asked."""
    if game.source.proxy_is_earlier:
        return LabelFit()
    return label_fit(records.proxy, records.labels)


def unread_odds_of(records: ScoredRecords) -> OddsTally:
    """Return the odds of rows whose label cannot be read."""
    return unread_odds(records.target, records.proxy)


def _stream(shared: LabelPass, game: Game, batch: Batch) -> int:
    """Return the stream of a row group in a game."""
    file, row_group, _ = batch.place
    model, day = game.source.model, str(shared.partition.day)
    return stream_key(game.plan.seed, model, day, file, row_group)

"""What is read before the first row is counted: lots of a large day, students, and segments.

A student is fitted to some holdout rows, and no label. Which rows are read follows from the files
alone, so every process fits the same student.
"""

import contextlib
import dataclasses
import datetime as dt
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import folds_of, learned, stream_key
from privcore.attacks.unit_records import unit_streams
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor
from workers.labels.columns import SPLIT, Batch
from workers.labels.parquet import Footer, RowGroup, read_footer, read_row_group
from workers.labels.shards import Piece, WorkUnit
from workers.looks.look import Players
from workers.scan.fitted import (
    MOST_RECORDS,
    FittedStudent,
    StudentSample,
    as_objects,
    fitted,
    fitted_segments,
    read_context,
)
from workers.scan.partial_results import ByGame, Game, LabelPass, RowDraw, may_be_large
from workers.scan.work_unit import check_columns, players, row_folds, row_streams
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.source import SharedScores, context_features

_FILES = 32
_ROW_GROUPS = 64
"""The most files and row groups that are read, evenly over all files."""
_ENOUGH = 2
"""A file is read no further once it gave this many times its part of `MOST_RECORDS`."""
_TOO_FEW = 1_000
"""The rows from which on a sample is believed to be of the whole holdout: an owner may have put it
where few files are looked at."""
_BATCH_ROWS = 1 << 14


_Said = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
"""Of some rows folds, what target and proxy say, and labels."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The games that ask for a sample, what it is made of, and how much of each file is read."""

    shared: LabelPass
    row_groups: int | None
    enough: int
    of_batch: Callable[[Game, Batch, StudentSample], StudentSample]


def with_students(
    shared: LabelPass, *, executor: Executor, deadline: dt.datetime | None = None
) -> LabelPass:
    """Return the pass with the second reference of each game that may have one: a student.

    What cannot be read is left out of the sample: the scan says what is wrong.
    """
    asked = shared.of([n for n, game in shared.games.items() if game.may_have_student])
    samples = sampled(asked, _of_batch, executor=executor, deadline=deadline)
    students = executor.fold(_teach, samples, samples, deadline=deadline) or ByGame({})
    return _with(shared, student=students.parts)


def _with(shared: LabelPass, **changes: Mapping[int, Any]) -> LabelPass:
    games = dict(shared.games)
    for name, found in changes.items():
        for number, known in found.items():
            games[number] = dataclasses.replace(games[number], **{name: known})
    return dataclasses.replace(shared, games=games)


def sampled(
    shared: LabelPass,
    of_batch: Callable[[Game, Batch, StudentSample], StudentSample],
    *,
    executor: Executor,
    deadline: dt.datetime | None = None,
) -> dict[int, StudentSample]:
    """Return a sample of the labels' rows for each game of a pass; of no game without a file.

    Some row groups of some files are read, and all of all files for a game that these give too few
    rows. What cannot be read is left out: the scan says what is wrong.
    """
    if not shared.games:
        return {}
    names = [file.name for file in shared.partition.files]
    chosen = [names[place] for place in _evenly(len(names), _FILES)]
    files, most = max(1, len(chosen)), _ENOUGH * MOST_RECORDS
    asked = _Asked(shared, _ROW_GROUPS // files, most // files, of_batch)
    passed_over = [len(chosen) < len(names)]
    samples = executor.fold(_sample, asked, chosen, on_done=passed_over.append, deadline=deadline)
    found = {} if samples is None else samples.parts
    few = [number for number, part in found.items() if part.streams.size < _TOO_FEW]
    if few and any(passed_over):
        asked = _Asked(shared.of(few), None, most, of_batch)
        again = executor.fold(_sample, asked, names, deadline=deadline)
        assert again is not None  # noqa: S101  # there are files
        found |= again.parts
    return found


def _teach(
    samples: dict[int, StudentSample], number: int
) -> tuple[None, ByGame[FittedStudent | None]]:
    return None, ByGame({number: fitted(samples[number])})


def _sample(asked: _Asked, file: str) -> tuple[bool, ByGame[StudentSample]]:
    """Return whether row groups of a file were passed over, and what it gives for each game.

    It is read once for all games, or where it is damaged for each as if there were no others, in an
    order that is not the rows'.
    """
    shared, passed_over = asked.shared, False
    parts = {number: StudentSample.none() for number in shared.games}
    path = shared.partition.path(file)
    try:
        listed = shared.partition.file(file)
        footer = read_footer(shared.lake, path, shared.columns, listed=listed)
        readable = []
        for number, game in shared.games.items():
            with contextlib.suppress(NotEvaluableError):
                check_columns(shared, game, footer, path)
                readable.append(number)
        able = shared.of(readable)
        groups = len(footer.groups)
        places = _evenly(groups, groups if asked.row_groups is None else asked.row_groups)
        passed_over = len(places) < groups
        for place in sorted(places, key=lambda place: stream_key(file, place)):
            able = able.of([n for n in able.games if parts[n].seen < asked.enough])
            if not able.games:
                break
            group = read_row_group(shared.lake, path, footer, place, able.columns)
            start = 0
            for table in group.batches(able.columns, rows=_BATCH_ROWS):
                able = able.of([n for n in able.games if parts[n].seen < asked.enough])
                if not able.games:
                    break
                batch = Batch(table, path, (file, place, start))
                for number, game in able.games.items():
                    with contextlib.suppress(NotEvaluableError):
                        parts[number] += asked.of_batch(game, batch, parts[number])
                start += table.num_rows
    except NotEvaluableError:
        if shared.alone:
            alone = [_sample(dataclasses.replace(asked, shared=one), file) for one in shared.alone]
            found = functools.reduce(operator.add, (part for _, part in alone))
            return any(passed for passed, _ in alone), found
    return passed_over, ByGame(parts)


def _of_batch(game: Game, batch: Batch, before: StudentSample) -> StudentSample:
    """Return holdout rows with what both models say of them."""
    playing = players(game, batch)

    def said(rows: NDArray[np.int64], some: Batch) -> _Said:
        scored = game.source.probabilities(some, SharedScores())
        target, proxy = map(learned, scored)
        return _folds(game, batch, playing, rows), target, proxy, playing.labels[rows]

    return _taken(game, batch, before, "student", playing.holdout, said)


def _taken(
    game: Game,
    batch: Batch,
    before: StudentSample,
    purpose: str,
    rows: NDArray[np.int64],
    said: Callable[[NDArray[np.int64], Batch], _Said],
) -> StudentSample:
    """Return those of some rows that the sample before them lacks; nothing is asked of others."""
    streams = row_streams(game, batch, purpose, rows)
    kept = before.wanted(streams)
    rows = rows[kept]
    if not rows.size:
        return StudentSample.none(seen=streams.size)
    some = Batch(batch.table.take(rows), batch.path, batch.place)
    folds, target, proxy, labels = said(rows, some)
    features = context_features(game.source, some)
    numbers, words = read_context(some, features, np.arange(rows.size))
    words_of = as_objects(words, rows.size)
    return StudentSample(
        features, streams[kept], folds, numbers, words_of, target, proxy, labels, seen=streams.size
    )


def _folds(
    game: Game, batch: Batch, playing: Players, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return folds by person where persons play, else by row."""
    if playing.people is None:
        return row_folds(game, batch, rows)
    streams, places = unit_streams(playing.people[rows], rows.size, key=game.unit_key)
    return folds_of(streams[places])


def _evenly(many: int, few: int) -> list[int]:
    """Return at most `few` of 0 to `many` - 1, the first and the last among them."""
    return sorted(set(np.linspace(0, many - 1, min(many, few)).round().astype(int).tolist()))


def with_segments(shared: LabelPass, *, share: float, executor: Executor) -> LabelPass:
    """Return a pass of one game with its segments.

    Args:
        shared: of one game, with its student.
        share: every region of the features holds at least this share of the rows.
        executor: that reads the labels' files.

    Raises:
        NotEvaluableError: there is no row to look at, or none has features.
    """
    ((number, game),) = shared.games.items()
    sample = sampled(shared, _of_moved, executor=executor).get(number, StudentSample.none())
    if not (sample.streams.size and sample.features):
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"No features of {game.source.model} can be read, so its rows cannot be divided into "
            "groups: name feature columns in [models.scores] context.",
        )
    return _with(shared, segments={number: fitted_segments(sample, share=share)})


def _of_moved(game: Game, batch: Batch, before: StudentSample) -> StudentSample:
    """Return rows of both arms, with how far the target is from its student, or from the proxy."""
    playing = players(game, batch)

    def said(rows: NDArray[np.int64], _: Batch) -> _Said:
        target, expected = (each[rows] for each in game.source.probabilities(batch, SharedScores()))
        if game.student is not None:
            folds = row_folds(game, batch, rows)
            expected = game.student.probabilities(batch, rows, folds)[:, 0]
        moved = np.abs(learned(target) - learned(expected)).max(axis=1)[:, None]
        nothing = np.zeros(rows.size, dtype=np.int64)
        return nothing, moved, np.zeros_like(moved), nothing - 1

    both = np.sort(np.concatenate([playing.training, playing.holdout]))
    return _taken(game, batch, before, "segments", both, said)


_COUNTED_ROWS = 1 << 18
_LEAST_BYTES = 16 << 20
"""The size of a day's files without which nothing is counted, and all rows play."""


def with_row_draws(
    shared: LabelPass, *, executor: Executor, deadline: dt.datetime | None = None
) -> LabelPass:
    """Return the pass with the draw of each game of which lots decide what plays.

    All rows play of sampled rows, persons, slices and other secrets than labels, since
    these ask about few rows, and of score tables, where a row that plays costs little more than one
    that does not. Files are read a second time for it, so footers say first whether there is need.
    """
    asked = shared.of([n for n, game in shared.games.items() if _may_draw(game)])
    if not asked.games or shared.partition.bytes < _LEAST_BYTES:
        return shared
    units = shared.partition.work_units
    rows = executor.fold(_rows, asked, units, deadline=deadline)
    if not may_be_large(rows or 0):
        return shared
    draws = executor.fold(_draw, asked, units, deadline=deadline)
    assert draws is not None  # noqa: S101  # there are units
    return _with(shared, draw={n: draw for n, draw in draws.parts.items() if draw.large})


def _may_draw(game: Game) -> bool:
    plan, source = game.plan, game.source
    return (
        isinstance(source, CheckpointSource)
        and plan.secret is Secret.LABEL
        and plan.privacy_unit is None
        and plan.sampling is None
        and not plan.slices
    )


def _footers(shared: LabelPass, unit: WorkUnit) -> Iterator[tuple[Piece, str, Footer]]:
    """Yield the pieces of a work unit that can be read; the scan says what is wrong with others."""
    for piece in unit:
        path, listed = shared.partition.path(piece.file), shared.partition.file(piece.file)
        try:
            yield piece, path, read_footer(shared.lake, path, shared.columns, listed=listed)
        except NotEvaluableError:
            continue


def _rows(shared: LabelPass, unit: WorkUnit) -> tuple[None, int]:
    return None, sum(
        footer.groups[index].rows
        for piece, _, footer in _footers(shared, unit)
        for index in piece.row_groups(len(footer.groups))
    )


def _draw(shared: LabelPass, unit: WorkUnit) -> tuple[None, ByGame[RowDraw]]:
    """Return the rows of a work unit in each game; what cannot be read is left out."""
    total: ByGame[RowDraw] = ByGame({})
    for piece, path, footer in _footers(shared, unit):
        for index in piece.row_groups(len(footer.groups)):
            total += _of_row_group(shared, (path, footer, index), piece.file)
    return None, total


def _of_row_group(shared: LabelPass, place: tuple[str, Footer, int], file: str) -> ByGame[RowDraw]:
    """Return a row group's rows in each game that can read them, whatever others can."""
    found: ByGame[RowDraw] = ByGame({})
    try:
        group = read_row_group(shared.lake, *place, shared.columns)
    except NotEvaluableError:
        alone = (_of_row_group(one, place, file) for one in shared.alone)
        return functools.reduce(operator.add, alone, found)
    for number, game in shared.games.items():
        with contextlib.suppress(NotEvaluableError):
            check_columns(shared, game, group.footer, group.path)
            found.parts[number] = _counted(game, group, file)
    return found


def _counted(game: Game, group: RowGroup, file: str) -> RowDraw:
    source = game.source
    assert isinstance(source, CheckpointSource)  # noqa: S101  # `_may_draw` has looked
    training, holdout = 0, 0
    for table in group.batches(source.place.columns, rows=_COUNTED_ROWS, encoded={SPLIT}):
        batch = Batch(table, group.path, (file, group.index, 0))  # arms know no places
        present, (train, held) = source.present(batch), source.arms(batch)
        training += int(np.count_nonzero(train & present))
        holdout += int(np.count_nonzero(held & present))
    own = set(game.columns) - {source.label.column}
    return RowDraw(training, holdout, group.content(file, own))

"""Rows of both arms are read and counted before a large day is played: so lots can be drawn."""

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError
from workers.executors import Executor
from workers.labels.columns import SPLIT, Batch
from workers.labels.parquet import Footer, RowGroup, read_footer, read_row_group
from workers.labels.shards import Piece, WorkUnit
from workers.scan.partial_results import Game, LabelPass
from workers.scan.players import check_columns
from workers.scan.row_draw import RowDraw, may_be_large
from workers.sources.checkpoints.checkpoint_source import CheckpointSource

_BATCH_ROWS = 1 << 18
_LEAST_BYTES = 16 << 20
"""The size of a day's files without which nothing is counted, and all rows play."""


@dataclass(frozen=True, slots=True)
class _Draws:
    """The rows of both arms in each game; it adds."""

    found: tuple[RowDraw, ...]

    def __add__(self, other: "_Draws") -> "_Draws":
        return _Draws(tuple(a + b for a, b in zip(self.found, other.found, strict=True)))


def with_row_draws(
    shared: LabelPass, *, executor: Executor, deadline: dt.datetime | None = None
) -> LabelPass:
    """Return the pass with the draw of each game of which lots decide what plays.

    All rows play of sampled rows, persons, decoys, slices and other secrets than labels, since
    these ask about few rows, and of score tables, where a row that plays costs little more than one
    that does not. Files are read a second time for it, so footers say first whether there is need.
    """
    asking = [n for n, game in enumerate(shared.games) if _may_draw(game)]
    if not asking or shared.partition.bytes < _LEAST_BYTES:
        return shared
    asked = dataclasses.replace(shared, games=tuple(shared.games[n] for n in asking))
    units = shared.partition.work_units
    rows = executor.fold(_rows, asked, units, on_done=lambda _: None, deadline=deadline)
    if not may_be_large(rows or 0):
        return shared
    draws = executor.fold(_draw, asked, units, on_done=lambda _: None, deadline=deadline)
    assert draws is not None  # noqa: S101  # there are units
    games = list(shared.games)
    for number, draw in zip(asking, draws.found, strict=True):
        if draw.large:
            games[number] = dataclasses.replace(games[number], draw=draw)
    return dataclasses.replace(shared, games=tuple(games))


def _may_draw(game: Game) -> bool:
    plan, source = game.plan, game.source
    return (
        isinstance(source, CheckpointSource)
        and plan.secret is Secret.LABEL
        and plan.privacy_unit is None
        and plan.sampling is None
        and not plan.slices
        and source.decoys is None
    )


def _footers(shared: LabelPass, unit: WorkUnit) -> Iterator[tuple[Piece, str, Footer]]:
    """Yield the pieces of a work unit that can be read; the scan says what is wrong with others."""
    columns = shared.columns(range(len(shared.games)))
    for piece in unit:
        path, listed = shared.partition.path(piece.file), shared.partition.file(piece.file)
        try:
            yield piece, path, read_footer(shared.lake, path, columns, listed=listed)
        except NotEvaluableError:
            continue


def _rows(shared: LabelPass, unit: WorkUnit) -> tuple[None, int]:
    """Return how many rows the footers of a work unit name."""
    return None, sum(
        footer.groups[index].rows
        for piece, _, footer in _footers(shared, unit)
        for index in piece.row_groups(len(footer.groups))
    )


def _draw(shared: LabelPass, unit: WorkUnit) -> tuple[None, _Draws]:
    """Return the rows of a work unit in each game; what cannot be read is left out."""
    total = _Draws((RowDraw(0, 0),) * len(shared.games))
    for piece, path, footer in _footers(shared, unit):
        for index in piece.row_groups(len(footer.groups)):
            total += _of_row_group(shared, (path, footer, index), piece.file)
    return None, total


def _of_row_group(shared: LabelPass, place: tuple[str, Footer, int], file: str) -> _Draws:
    """Return the rows of a row group in each game, read for each alone where it is damaged."""
    try:
        group = read_row_group(shared.lake, *place, shared.columns(range(len(shared.games))))
    except NotEvaluableError:
        if len(shared.games) == 1:
            return _Draws((RowDraw(0, 0),))
        return _Draws(tuple(_of_row_group(one, place, file).found[0] for one in shared.alone))
    return _Draws(tuple(_of_group(shared, game, group, file) for game in shared.games))


def _of_group(shared: LabelPass, game: Game, group: RowGroup, file: str) -> RowDraw:
    """Return a row group's rows; none where this game cannot read them, whatever others can."""
    with contextlib.suppress(NotEvaluableError):
        check_columns(shared, game, group.footer, group.path)
        return _counted(game, group, file)
    return RowDraw(0, 0)


def _counted(game: Game, group: RowGroup, file: str) -> RowDraw:
    source = game.source
    assert isinstance(source, CheckpointSource)  # noqa: S101  # `_may_draw` has looked
    training, holdout = 0, 0
    for table in group.batches(source.place.columns, rows=_BATCH_ROWS, encoded={SPLIT}):
        batch = Batch(table, group.path, (file, group.index, 0))  # arms know no places
        present, (train, held) = source.present(batch), source.arms(batch)
        training += int(np.count_nonzero(train & present))
        holdout += int(np.count_nonzero(held & present))
    own = set(game.columns) - {source.label.column}
    return RowDraw(training, holdout, group.content(file, own))

"""A sample of a day's rows, looked at before the first is counted: what to match numbers by.

Of probabilities nothing needs to be known beforehand. Of predicted numbers the place among all of
them must be; a sample gives it, of the proxy's predictions alone, so no label is looked at.
"""

import dataclasses
import datetime as dt
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError
from workers.executors import Executor
from workers.labels.columns import Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.labels.shards import Piece, WorkUnit
from workers.scan.partial_results import Game, LabelPass

_PIECES = 32
_ROW_GROUPS = 64
_ROWS = 1 << 13
"""Pieces, row groups and rows of a row group, evenly over all, of which a sample is taken."""
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Ascending numbers for each game of a pass; it adds, in any order to the same."""

    values: tuple[NDArray[np.float64], ...]

    def __add__(self, other: "Sample") -> "Sample":
        """Return the sample of both sets of rows."""
        pairs = zip(self.values, other.values, strict=True)
        return Sample(tuple(np.sort(np.concatenate(pair)) for pair in pairs))


def sample_order(
    shared: LabelPass, *, executor: Executor, deadline: dt.datetime | None = None
) -> LabelPass:
    """Return the pass with what its sources need to know of the day's rows beforehand.

    The same rows give every reader the same sample. What cannot be read is left out of it: the
    scan says what is wrong.
    """
    asking = tuple(game for game in shared.games if game.source.sampled)
    if not asking:
        return shared
    pieces = [piece for unit in shared.partition.work_units for piece in unit]
    chosen = [pieces[place] for place in _evenly(len(pieces), _PIECES)]
    groups = max(1, _ROW_GROUPS // max(1, len(chosen)))
    found = executor.fold(
        _sample,
        (dataclasses.replace(shared, games=asking), groups),
        [(piece,) for piece in chosen],
        on_done=lambda _: None,
        deadline=deadline,
    )
    samples = iter((np.zeros(0),) * len(asking) if found is None else found.values)
    games = tuple(
        dataclasses.replace(game, source=game.source.knowing(next(samples)))
        if game.source.sampled
        else game
        for game in shared.games
    )
    return dataclasses.replace(shared, games=games)


def _evenly(many: int, few: int) -> list[int]:
    """Return at most `few` of 0 to `many` - 1, the first and the last among them."""
    return sorted(set(np.linspace(0, many - 1, min(many, few)).round().astype(int).tolist()))


def _sample(asked: tuple[LabelPass, int], unit: WorkUnit) -> tuple[None, Sample]:
    shared, groups = asked
    (piece,) = unit
    return None, Sample(tuple(_of_game(shared, game, piece, groups) for game in shared.games))


def _of_game(shared: LabelPass, game: Game, piece: Piece, groups: int) -> NDArray[np.float64]:
    path, columns = shared.partition.path(piece.file), game.source.sampled
    found = [np.zeros(0)]
    try:
        listed = shared.partition.file(piece.file)
        footer = read_footer(shared.lake, path, columns, listed=listed)
        there = piece.row_groups(len(footer.groups))
        for place in (there[index] for index in _evenly(len(there), groups)):
            group = read_row_group(shared.lake, path, footer, place, columns)
            step = 1 + footer.groups[place].rows // _ROWS
            for table in group.batches(columns, rows=_BATCH_ROWS):
                some = table.take(np.arange(0, table.num_rows, step))
                found.append(game.source.sample(Batch(some, path, (piece.file, place, 0))))
    except NotEvaluableError:
        pass
    return np.sort(np.concatenate(found))

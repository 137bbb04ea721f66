"""Counts of an arm's rows of a batch against the student, in the place of the proxy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LabelCounts,
    OddsTally,
    StudentTallies,
    label_counts,
    odds_cells,
)
from workers.labels.columns import Batch
from workers.scan.partial_results import Game, of_one_day
from workers.scan.players import row_folds


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

"""What an arm's rows of a batch come to against the student, in the place of the proxy."""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    OddsTally,
    StudentTallies,
    above,
    above_odds,
    label_counts,
    odds_tally,
    places,
)
from workers.labels.columns import Batch
from workers.scan.partial_results import Game, of_one_day
from workers.scan.players import row_folds
from workers.scan.student import FittedStudent


def against_student(
    game: Game,
    batch: Batch,
    scored: tuple[NDArray[np.float64], NDArray[np.float64]],
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    day: int,
) -> StudentTallies | None:
    """Return what some rows come to against the student; None where there is none.

    Args:
        game: whose student is asked.
        batch: that holds the rows.
        scored: of these rows, shape (rows, classes): what target and proxy say.
        labels: of these rows, class indices.
        rows: shape (rows,), their places in the batch.
        day: number of the batch's day among the game's.

    Raises:
        NotEvaluableError: a column is stored as another kind than in the sample.
    """
    if game.student is None:
        return None
    days = len(game.source.days)
    folds = row_folds(game, batch, rows)
    if game.source.gives_chances:
        target, proxy = scored
        said = game.student.probabilities(batch, rows, folds)
        counted = label_counts(proxy, labels, student=said[:, 1], group=day, groups=days)
        odds = odds_tally(target, said[:, 0], labels)
    else:
        counted, odds = None, _of_numbers(game, game.student, batch, rows, folds)
    return StudentTallies(of_one_day(odds, day, days), counted)


def _of_numbers(
    game: Game,
    student: FittedStudent,
    batch: Batch,
    rows: NDArray[np.int64],
    folds: NDArray[np.int64],
) -> OddsTally:
    """Return the odds of sides of the student's predictions, in the order of these."""
    numbers = game.source.numbers(batch)
    assert numbers is not None  # noqa: S101  # the source gives no chances
    some = numbers.of(rows)
    said = student.numbers(batch, rows, folds, proxy=some.proxy)
    target, undecided = above_odds(some.target, said)
    order = places(said, np.array(student.borders))
    return odds_tally(target, undecided, above(some.labels, said), order=order)

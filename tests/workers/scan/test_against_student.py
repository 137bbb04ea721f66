"""An arm's rows are counted against what the target's student says, and labels by the proxy's."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import (
    OddsTally,
    label_counts,
    odds_cells,
    odds_tally,
)
from tests.support.lake import DAY, PLAN
from workers.labels.columns import Batch
from workers.scan.fitted_student import FittedStudent, Taught
from workers.scan.played_arms import against_student
from workers.scan.players import row_folds

ROWS = np.array([5, 2, 7, 0, 3])
BATCH = Batch(pl.DataFrame({"age": np.arange(8.0)}).to_arrow(), "somewhere", ("file", 1, 40))
RANDOM = np.random.default_rng(3)
TARGET, PROXY, EXPECTED, EXPECTED_OF_PROXY = (RANDOM.dirichlet((1.0, 1.0), 5) for _ in range(4))
LABELS = np.array([0, 1, 1, 0, 1])


def game(student: Any, **source: Any) -> Any:
    known = SimpleNamespace(model="ads", day=DAY, days=(DAY, DAY, DAY), **source)
    return SimpleNamespace(student=student, plan=PLAN, source=known)


class Says(FittedStudent):
    """Says the same of every row, and which rows and folds it was asked about."""

    def probabilities(self, batch: Batch, rows: Any, folds: Any) -> NDArray[np.float64]:
        assert batch is BATCH
        assert rows.tolist() == ROWS.tolist()
        assert folds.tolist() == row_folds(game(None), BATCH, ROWS).tolist()
        return np.stack([EXPECTED, EXPECTED_OF_PROXY], axis=1)


def says() -> Says:
    nothing: Any = None
    return Says(nothing, None, (), (), Taught(5, None))


def test_without_a_student_nothing_is_counted() -> None:
    assert against_student(game(None), BATCH, (TARGET, PROXY), LABELS, ROWS, day=1) is None


def test_classes_are_counted_against_the_targets_student_and_labels_beside_the_proxys() -> None:
    found = against_student(game(says()), BATCH, (TARGET, PROXY), LABELS, ROWS, day=1)
    assert found is not None
    assert found.cells.tolist() == odds_cells(TARGET, EXPECTED, LABELS).tolist()
    counted = label_counts(PROXY, LABELS, student=EXPECTED_OF_PROXY, group=1, groups=3)
    assert found.labels == counted
    tallies = found.tallies(1, 3)
    nothing = OddsTally.zero()
    assert tallies.odds == (nothing, odds_tally(TARGET, EXPECTED, LABELS), nothing)
    assert tallies.labels == counted

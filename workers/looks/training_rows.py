"""Training rows of the table, beside those that the model's own file counts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workers.looks.look import Findings, Look, Seen
from workers.remark import Remark, RemarkKind
from workers.sources.secrets import checkpoints_of

_DIFFERENCE = 0.25
"""Share of the larger number by which they have to differ. Rows set aside to stop training early,
and near duplicates that training dropped, are fewer."""
_OF_TEACHERS = {"pate_laplace", "pate_gaussian"}
"""Mechanisms whose file counts the few rows that teachers were asked about."""


@dataclass(frozen=True, slots=True)
class TrainingRows(Look):
    """Number of the table's training rows, whatever their labels and persons are."""

    rows: int
    after_files: ClassVar[bool] = True

    @classmethod
    def see(cls, seen: Seen) -> "TrainingRows | None":
        """Return the training rows of a batch; None where no model's file may count any."""
        if checkpoints_of(seen.source) is None:
            return None
        return cls(int(np.count_nonzero(seen.source.arms(seen.batch)[0])))

    def remarks(self, found: Findings) -> tuple[Remark, ...]:
        """Return that the target was trained on other rows than the table's training rows, if so.

        It never accuses: honest training leaves rows out, weights them, or takes several days.
        Where the manifest says that days trained the model whose labels do not play, more rows are
        expected.
        """
        models = checkpoints_of(found.source)
        if models is None or models.target.described.rows is None:
            return ()
        mechanism = None if models.privacy is None else models.privacy.mechanism
        if mechanism is not None and mechanism.name in _OF_TEACHERS:
            return ()
        counted, rows = models.target.described.rows, self.rows
        all_days_play = models.days[0] == models.target.manifest.trained_on.first
        more = all_days_play and (1 - _DIFFERENCE) * counted.count >= rows + found.bad_records
        few = counted.exact and counted.count <= (1 - _DIFFERENCE) * rows
        if not more and not few:
            return ()
        least = "" if counted.exact else "at least "
        why = (
            "Of rows that training saw and that the table does not have, nothing is known: see "
            "that the table holds all rows of the training. Weights of rows, rows of earlier days "
            "and later deletions change the count, too."
            if more
            else "Records that training never saw as training records make the bound smaller: see "
            "that split is train for exactly the rows that trained the model."
        )
        said = (
            f"The target's file counts {least}{counted.count:,} rows that trained it, and "
            f"{rows:,} training records are in the table. {why}"
        )
        return (Remark(RemarkKind.ROWS_MISCOUNTED, said),)

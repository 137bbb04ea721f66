"""A remark where a model's file counts far other numbers of rows than the table's training rows."""

from workers.remark import Remark, RemarkKind
from workers.scan.partial_results import PartialResult
from workers.sources.secrets import checkpoints_of
from workers.sources.source import Source

_DIFFERENCE = 0.25
"""Share of the larger number by which they have to differ. Rows set aside to stop training early,
and near duplicates that training dropped, are fewer."""
_OF_TEACHERS = {"pate_laplace", "pate_gaussian"}
"""Mechanisms whose file counts the few rows that teachers were asked about."""


def trained_rows(source: Source, result: PartialResult) -> tuple[Remark, ...]:
    """Return that the target was trained on other rows than the table's training rows, if so.

    It never accuses: honest training leaves rows out, weights them, or takes several days. Where
    the manifest says that days trained the model whose labels do not play, more rows are expected.
    """
    models = checkpoints_of(source)
    if models is None or models.target.trained_rows is None:
        return ()
    mechanism = None if models.privacy is None else models.privacy.mechanism
    if mechanism is not None and mechanism.name in _OF_TEACHERS:
        return ()
    counted, rows = models.target.trained_rows, result.table_training_rows
    all_days_play = models.days[0] == models.target.manifest.trained_on.first
    more = all_days_play and (1 - _DIFFERENCE) * counted.count >= rows + result.bad.total
    few = counted.exact and counted.count <= (1 - _DIFFERENCE) * rows
    if not more and not few:
        return ()
    least = "" if counted.exact else "at least "
    why = (
        "Of rows that training saw and that the table does not have, nothing is known: see that "
        "the table holds all rows of the training. Weights of rows, rows of earlier days and later "
        "deletions change the count, too."
        if more
        else "Records that training never saw as training records make the bound smaller: see that "
        "split is train for exactly the rows that trained the model."
    )
    said = (
        f"The target's file counts {least}{counted.count:,} rows that trained it, and "
        f"{rows:,} training records are in the table. {why}"
    )
    return (Remark(RemarkKind.ROWS_MISCOUNTED, said),)

"""A remark where a model's file counts other rows than the table's training rows."""

from workers.plan import Plan
from workers.scan.leaf_counts import rows_are_counted
from workers.scan.partial_results import PartialResult
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.source import Source

_OTHERWISE = 0.005
"""Share of rows in other leaves that is passed over: rows on a threshold, other roundings."""
_DIFFERENCE = 0.02
"""Share of the table's training rows by which a count may differ without a remark."""


def trained_rows(source: Source, records: int, result: PartialResult, plan: Plan) -> str:
    """Return that the target was trained on other rows than `records` training records, or "".

    It never changes a verdict: the file's writer chooses what it says, and honest training leaves
    rows out, weights them, or takes several days. Says nothing where decoys or several days play.
    Where the manifest says that earlier days trained the model, too, the file counts more rows than
    the table has, and never fewer, in all or in one leaf. Where persons play, the table's training
    rows are counted.
    """
    if not isinstance(source, CheckpointSource) or not rows_are_counted(source, plan):
        return ""
    counted = source.target.trained_rows
    if counted is None:
        return ""
    persons = plan.privacy_unit is not None
    records = result.leaves.rows if persons else records
    trained = source.target.manifest.trained_on
    alone = trained.first == trained.last
    more = alone and counted.count > (1 + _DIFFERENCE) * (records + result.bad.total)
    fewer = counted.exact and counted.count < (1 - _DIFFERENCE) * records
    if not (more or fewer):
        missing = (abs(counted.count - records) if alone else 0) + result.bad.total
        differs = result.leaves.difference() if alone else result.leaves.beyond()
        return _in_other_leaves(differs, missing / max(records, 1))
    least = "" if counted.exact else "at least "
    said = (
        f"The target's file counts {least}{counted.count:,} rows that trained it, and "
        f"{records:,} training records {'are in the table' if persons else 'played'}."
    )
    if more:
        return (
            f"{said} Of rows that training saw and that did not play, nothing is known. Weights of "
            "rows, rows of earlier days and later deletions change the count, too: see that the "
            "table holds all rows of the training."
        )
    return (
        f"{said} Records that training never saw as training records make the bound smaller. Rows "
        "set aside to stop training early change the count, too: see that split is train for "
        "exactly the rows that trained the model."
    )


def _in_other_leaves(differs: float, missing: float) -> str:
    """Return that the table's training rows fall into other leaves than those of the training.

    Of a table that training read, not one does. So a share that `missing` rows could explain, and a
    little more, is passed over.
    """
    if differs <= _OTHERWISE + missing:
        return ""
    return (
        "The target's file counts the training rows in each leaf of its trees, and at least "
        f"{differs:.1%} of the table's are in another leaf of one tree. So training read other "
        "features or other rows than the table has (rounded, blurred, in other units, of another "
        "period), and this bound does not show what the model remembers of those. See that the "
        "table holds what training read."
    )

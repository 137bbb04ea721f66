"""A remark where a model's file counts other rows than the table's training rows."""

from privcore.lower_bounds import Secret
from workers.plan import Plan
from workers.scan.partial_results import PartialResult
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.source import Source

_DIFFERENCE = 0.02
"""Share of the table's training rows by which a count may differ without a remark."""


def trained_rows(source: Source, records: int, result: PartialResult, plan: Plan) -> str:
    """Return that the target was trained on other rows than `records` training records, or "".

    It never changes a verdict: the file's writer chooses what it says, and honest training leaves
    rows out, weights them, or takes several days. Says nothing where persons, decoys or several
    days play, and where the manifest says that earlier days trained the model, too.
    """
    if not isinstance(source, CheckpointSource) or source.target.trained_rows is None:
        return ""
    trained = source.target.manifest.trained_on
    single = plan.secret is Secret.LABEL and plan.privacy_unit is None and plan.days == 1
    whole = single and source.decoys is None
    if not whole or trained.first < trained.last:
        return ""
    counted = source.target.trained_rows
    more = counted.count > (1 + _DIFFERENCE) * (records + result.bad.total)
    fewer = counted.exact and counted.count < (1 - _DIFFERENCE) * records
    if not (more or fewer):
        return ""
    least = "" if counted.exact else "at least "
    said = (
        f"The target's file counts {least}{counted.count:,} rows that trained it, and "
        f"{records:,} training records played."
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

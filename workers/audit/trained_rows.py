"""A remark where a model's file counts other rows than the table's training rows."""

from privcore.lower_bounds import Secret
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.scan.leaf_counts import WORDS, all_days_play
from workers.scan.partial_results import PartialResult
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.secrets import checkpoints_of
from workers.sources.source import Source

_OTHERWISE = 0.005
"""Share of rows in other leaves that is passed over: rows on a threshold, other roundings. Of a
table that training read, not one is, and not one has another word."""
_DIFFERENCE = 0.02
"""Share of the table's training rows by which a count may differ without a remark."""
_OF_TEACHERS = {"pate_laplace", "pate_gaussian"}
_NOT_COUNTED = (
    "The target's file does not tell which rows it was trained on (an ONNX file never does, nor "
    "that of a student of teachers), so they were not compared with the table's: if training read "
    "other features or rows, a small bound concludes nothing."
)
"""An owner may choose such a file, so it is said of each where nothing was compared."""
_TAKEN_OUT = (
    "rows that somebody took out of the table after training, by what the model says of them, make "
    "an innocent model look right on the others. Before the bound is believed, see that the table "
    "holds all rows of the training."
)
_NOT_COUNTED_VIOLATED = (
    f"The target's file does not tell which rows it was trained on (an ONNX file never does): "
    f"{_TAKEN_OUT}"
)


def trained_rows(
    source: Source, records: int, result: PartialResult, plan: Plan, *, violated: bool = False
) -> tuple[Remark, ...]:
    """Return that the target was trained on other rows than `records` training records, if so.

    It never accuses: the file's writer chooses what it says, and honest training leaves
    rows out, weights them, or takes several days. Where the manifest says that days trained the
    model whose labels do not play, the file counts more rows than the table has, and never fewer,
    in all or in one leaf. Where persons or decoys play, or the secret is another than the label,
    the table's training rows are counted.
    """
    models = checkpoints_of(source)
    if models is None:
        return ()
    return _trained_rows(models, records, result, plan, violated=violated)


def _trained_rows(
    source: CheckpointSource, records: int, result: PartialResult, plan: Plan, *, violated: bool
) -> tuple[Remark, ...]:
    """Return the remark of two models, whatever the secret is."""
    counted = source.target.trained_rows
    if counted is None or _is_student(source):
        return remarked(RemarkKind.ROWS_NOT_COUNTED, _not_counted(source, violated=violated))
    plain = plan.secret is Secret.LABEL and plan.privacy_unit is None and source.decoys is None
    in_table = not plain or result.draw is not None
    records = result.leaves.rows if in_table else records
    whole = all_days_play(source)
    more = whole and counted.count > (1 + _DIFFERENCE) * (records + result.bad.total)
    few = counted.count < (1 - _DIFFERENCE) * records
    if not more and not (counted.exact and few):
        missing = (abs(counted.count - records) if whole else 0) + result.bad.total
        differs, where = result.leaves.difference() if whole else result.leaves.beyond()
        # Trees of a sample of the rows, as XGBoost may draw it, say nothing.
        telling = counted.exact or (whole and not few)
        if telling and differs > _OTHERWISE + missing / max(records, 1):
            elsewhere = _elsewhere(differs, where, source, violated=violated)
            return remarked(RemarkKind.LEAVES_DIFFER, elsewhere)
        known = violated or (telling and _compared(source, result))
        return remarked(RemarkKind.ROWS_NOT_COUNTED, "" if known else _NOT_COUNTED)
    least = "" if counted.exact else "at least "
    said = (
        f"The target's file counts {least}{counted.count:,} rows that trained it, and "
        f"{records:,} training records {'are in the table' if in_table else 'played'}."
    )
    if more:
        see = "see that the table holds all rows of the training."
        return remarked(
            RemarkKind.ROWS_UNPLAYED,
            f"{said} Of rows that training saw and that did not play, nothing is known. Weights of "
            "rows, rows of earlier days and later deletions change the count, too"
            f"{f'; and {_TAKEN_OUT}' if violated else f': {see}'}",
        )
    return remarked(
        RemarkKind.ROWS_UNTRAINED,
        f"{said} Records that training never saw as training records make the bound smaller. Rows "
        "set aside to stop training early change the count, too: see that split is train for "
        "exactly the rows that trained the model.",
    )


def _is_student(source: CheckpointSource) -> bool:
    """Return whether teachers read the rows, and the file counts the few that they were asked."""
    privacy = source.privacy
    mechanism = None if privacy is None else privacy.mechanism
    return mechanism is not None and mechanism.name in _OF_TEACHERS


def _not_counted(source: CheckpointSource, *, violated: bool) -> str:
    """Return that a file tells nothing of its rows; a coin that chose decoys needs none of them."""
    if violated:
        return _NOT_COUNTED_VIOLATED if source.decoys is None else ""
    return _NOT_COUNTED


def _compared(source: CheckpointSource, result: PartialResult) -> bool:
    """Return whether leaves were compared, or words of a model that takes nothing else."""
    if any(not name.startswith(WORDS) for name in result.leaves.seen):
        return True
    numbers = any(each.kind == "numeric" for each in source.target.manifest.features)
    return bool(result.leaves.seen) and not numbers


def _elsewhere(differs: float, where: str, source: CheckpointSource, *, violated: bool) -> str:
    """Return that the table's training rows have other words or leaves than training had."""
    if where.startswith(WORDS):
        feature = source.target.manifest.features[int(where.removeprefix(WORDS))].name
        counted, others = f"of each word of {feature}", "have another word there"
        changed = "renamed or merged words, of another period"
    else:
        counted, others = "in each leaf of its trees", "are in another leaf of one tree"
        changed = "rounded, blurred, in other units, of another period"
    so = "this bound does not show what the model remembers of those. See"
    if violated:
        so = (
            "features that somebody wrote by the labels can make an innocent model look right on "
            "training rows alone. Before the bound is believed, see"
        )
    return (
        f"The target's file counts the training rows {counted}, and at least {differs:.1%} of the "
        f"table's {others}. So training read other features or other rows than the table has "
        f"({changed}), and {so} that the table holds what training read."
    )

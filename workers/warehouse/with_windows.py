"""Audits with what other nights, and other models of the same night, add to each."""

import datetime as dt

import polars as pl

from privcore.lower_bounds import ReasonCode, Verdict, false_discovery_qvalues
from workers.warehouse.input_changes import input_changes
from workers.warehouse.model_verdict import REACH
from workers.warehouse.night_columns import OF_COUNTED, REASON_CODE, VERDICT
from workers.warehouse.night_row import NightsTogether
from workers.warehouse.nights_together import nights_together
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, Warehouse

_SIZE = [str(code) for code in ReasonCode if code.by_size]


class AuditedNight(AuditRow, NightsTogether):
    """One current record, with what is derived from other nights and models when it is read."""

    inputs_changed: str | None = None
    """What of its inputs an earlier record had otherwise."""
    claim_qvalue: float | None = None
    """claim_pvalue, corrected for the models of the same night."""


def with_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return current audits with what other nights and models add to each.

    Columns added: those of `NightsTogether`; `claim_qvalue`, e-BH's over the models of the same
    night; and `inputs_changed`, what of the inputs an earlier record had otherwise. A night without
    figures, or an exploratory one, ends no violation: the model's verdict is violated after it,
    too, for as long as after the last other night.
    """
    found = nights_together(warehouse, audits)
    ids = audits.select("audit_id")
    added = ids.join(found, on="audit_id", how="left", maintain_order="left").drop("audit_id")
    added = _with_verdicts_of_silent(warehouse, audits, added)
    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    # Beside the columns that are there: a join of all would copy them.
    return audits.hstack(added).with_columns(
        _qvalues(audits), pl.Series("inputs_changed", changed, dtype=pl.String)
    )


def _with_verdicts_of_silent(
    warehouse: Warehouse, audits: pl.DataFrame, added: pl.DataFrame
) -> pl.DataFrame:
    """Return what is added, with the verdicts of nights that add nothing to the others.

    A violation goes on, or who spoils an input every night would have a violated model read as one
    without figures. Else their own verdict is the model's; an exploratory one acquits of nothing.
    """
    before = _violated_before(warehouse, audits.filter(~COUNTED_WITH_OTHERS))
    own = audits.select(
        "verdict",
        "reason_code",
        on=pl.col("audit_id").is_in(before) & (pl.col("verdict") != Verdict.VIOLATED),
        # A doubt, or a failure, is no matter of the plan.
        chosen=~CONFIGURED & (pl.col("reason_code").is_null() | pl.col("reason_code").is_in(_SIZE)),
    )

    def told(column: str, own: str, goes_on: str, chosen: str) -> pl.Expr:
        beside = pl.when("chosen").then(pl.lit(chosen)).otherwise(own)
        alone = pl.when("on").then(pl.lit(goes_on)).otherwise(beside)
        return pl.when(pl.col(VERDICT).is_null()).then(alone).otherwise(column).alias(column)

    violated, inconclusive = str(Verdict.VIOLATED), str(Verdict.INCONCLUSIVE)
    earlier, plan = str(ReasonCode.EARLIER_NIGHT), str(ReasonCode.CHOSEN_PLAN)
    return (
        added.hstack(own)
        .with_columns(
            told(VERDICT, "verdict", violated, inconclusive),
            told(REASON_CODE, "reason_code", earlier, plan),
        )
        .select(added.columns)
    )


def _violated_before(warehouse: Warehouse, silent: pl.DataFrame) -> pl.Series:
    """Return the ids of the silent nights before which the model was violated, lately."""
    if silent.is_empty():
        return silent["audit_id"].implode()
    named = ("model", "secret", "day")
    silent = silent.filter(pl.col("day").is_not_null())
    models = silent["model"].unique()
    current = warehouse.current(every_secret=True, models=models, columns=OF_COUNTED)
    nights = current.filter(COUNTED_WITH_OTHERS).sort("day")
    last = (
        silent.select(*named, "audit_id")
        .sort("day")
        .join_asof(
            nights.select(*named, last="audit_id"),
            on="day",
            by=("model", "secret"),
            tolerance=dt.timedelta(days=REACH),
            check_sortedness=False,
        )
    )
    before = nights.filter(pl.col("audit_id").is_in(last["last"].drop_nulls().implode()))
    found = nights_together(warehouse, before).filter(pl.col(VERDICT) == Verdict.VIOLATED)[
        "audit_id"
    ]
    return last.filter(pl.col("last").is_in(found.implode()))["audit_id"].implode()


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_evalue", "exploratory").with_row_index()
    evalue = pl.col("claim_evalue")
    counting = numbered.filter(CONFIGURED, evalue >= 0.0, evalue.is_not_nan())
    for _, night in counting.group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_evalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)

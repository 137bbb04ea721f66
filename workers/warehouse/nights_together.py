"""What nights say together, as it is stored: folded at each commit, and derived where it is not.

A night's columns follow from the nights up to it. So a commit of a day derives those of this day
and of the model's later days, and appends them. A reader takes the last row of each audit. Where
there are rows of the model that no fold has seen, since a commit was cut off before its own, the
reader derives anew: what it reads is the same, and the next commit folds all of the model's nights.
`with_windows` adds it to audits, with what other models of the same night add.
"""

import datetime as dt
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import polars as pl

from privcore.exceptions import AuditError
from privcore.lower_bounds import ReasonCode, Verdict, false_discovery_qvalues
from workers.warehouse.changes import input_changes
from workers.warehouse.model_verdict import REACH
from workers.warehouse.schema import (
    AuditRecord,
    AuditRow,
    NightRow,
    NightsTogether,
    NoteKind,
    NoteRow,
)
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, OF_COUNTED, Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import without_rows

_TABLE = "audit_nights"
_DERIVED = tuple(NightsTogether.model_fields)
_log = logging.getLogger(__name__)


def nights_together(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return `audit_id` and the columns of `NightsTogether` of those of the audits that count.

    These are current ones, with the columns `OF_COUNTED`; one that counts with no other has no row.
    """
    audits = audits.filter(COUNTED_WITH_OTHERS)
    folded = pl.col("model").is_in(folded_models(warehouse, audits["model"]).implode())
    stored = warehouse.collect(
        warehouse.scan(_TABLE)
        .filter(pl.col("audit_id").is_in(audits.filter(folded)["audit_id"].implode()))
        .sort("folded_at", "rows_known")
        .unique("audit_id", keep="last")
        .select("audit_id", *_DERIVED)
    )
    return pl.concat([stored, derived(warehouse, audits.filter(~folded))])


def folded_models(warehouse: Warehouse, models: Collection[str]) -> pl.Series:
    """Return the models all of whose rows the last fold had seen."""
    return _rows_known(warehouse, models).filter(pl.col("seen") == pl.col("rows"))["model"]


def derived(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return the same, derived from the nights' e-values."""
    if audits.is_empty():
        return without_rows(NightRow).select("audit_id", *_DERIVED)
    from workers.warehouse.night_windows import epsilon_windows  # noqa: PLC0415  # numba takes long

    return epsilon_windows(warehouse, audits).select("audit_id", *_DERIVED)


def commit_nights(warehouse: Warehouse, records: Sequence[AuditRecord]) -> None:
    """Commit records as `Warehouse.commit` does, and fold the nights that they change."""
    warehouse.commit(records)
    fold(warehouse, [one.audit for one in records])


def withdraw_night(warehouse: Warehouse, audit_id: str, why: str) -> NoteRow:
    """Withdraw an audit as `Warehouse.withdraw` does, and fold the nights that this changes."""
    row = warehouse.withdraw(audit_id, why)
    fold(warehouse, [warehouse.record(audit_id).audit])
    return row


def fold(warehouse: Warehouse, audits: Sequence[AuditRow]) -> None:
    """Derive and store what nights say together, after a row was added of each of the audits.

    An error is logged, since readers derive anew.
    """
    try:
        warehouse.insert_rows(_TABLE, _changed_nights(warehouse, audits) if audits else ())
    except AuditError:
        _log.exception("Nights could not be folded: they are derived at each reading.")


def _changed_nights(warehouse: Warehouse, audits: Sequence[AuditRow]) -> list[NightRow]:
    """Return the nights of each model from the first of these audits on, and its last one.

    Where other rows came that no fold has seen, all of the model's nights.
    """
    now = dt.datetime.now(dt.UTC)  # of two folds the one that began later has seen more
    came = Counter(audit.model for audit in audits)
    models = _rows_known(warehouse, came)
    begins = {}
    for model, names, rows, seen in models.iter_rows():
        whole = seen + sum(came[name] for name in names) == rows
        days = [audit.day for audit in audits if audit.model in names]
        begins[model] = min(days) if whole else dt.date.min
    current = warehouse.current(
        every_secret=True,
        models=models["model"],
        columns=tuple(dict.fromkeys((*OF_COUNTED, *TableRow.model_fields))),
    ).filter(COUNTED_WITH_OTHERS)
    begun = pl.col("model").replace_strict(begins, return_dtype=pl.Date(), default=None)
    # The model's last night also where a failed one came: all rows have been seen.
    last = pl.col("day") == pl.col("day").max().over("model")
    wanted = current.filter((pl.col("day") >= begun) | last)
    found = (
        wanted.select(*TableRow.model_fields, "model", "day")
        .join(derived(warehouse, wanted), on="audit_id")
        .join(models.select("model", rows_known="rows"), on="model")
    )
    return [NightRow(**row, folded_at=now) for row in found.iter_rows(named=True)]


def _rows_known(warehouse: Warehouse, models: Collection[str]) -> pl.DataFrame:
    """Return these models, and those whose drills they are.

    Columns: `model`; `names`, of itself and of the drills that its records name; how many `rows`
    there are of these; and how many its last fold had `seen`.
    """
    audits = warehouse.scan("audits").select("audit_id", "model", "drill")
    asked = pl.col("model").is_in(list(models)) | pl.col("drill").is_in(list(models))
    named = warehouse.collect(audits.filter(asked).select("model", "drill").unique())
    itself, drills = (named.select("model", names=name) for name in ("model", "drill"))
    pairs = pl.concat([itself, drills.drop_nulls()]).unique().lazy()
    rows = audits.select("audit_id", names="model").join(pairs, on="names", how="semi")
    notes = warehouse.scan("audit_notes").filter(pl.col("kind") != NoteKind.ACKNOWLEDGED)
    counts = pl.concat([rows, notes.select("audit_id").join(rows, on="audit_id")])
    latest = pl.col("rows_known").sort_by("folded_at", "rows_known").last()
    folds = warehouse.scan(_TABLE).join(pairs, on="model", how="semi").group_by("model")
    return warehouse.collect(
        pairs.join(counts.group_by("names").agg(rows=pl.len()), on="names", how="left")
        .group_by("model")
        .agg("names", pl.col("rows").sum())
        .join(folds.agg(seen=latest), on="model", how="left")
        .with_columns(pl.col("seen").fill_null(0))
    )


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
    added = audits.select("audit_id").join(found, on="audit_id", how="left", maintain_order="left")
    goes_on = pl.col("audit_id").is_in(_violated_before(warehouse, audits))
    goes_on &= pl.col("verdict") != Verdict.VIOLATED
    # A doubt, or a failure, is no matter of the plan.
    by_plan = pl.col("reason_code").is_null() | pl.col("reason_code").is_in(_SIZE)

    def told(column: str, earlier: StrEnum, chosen: StrEnum) -> pl.Expr:
        own = pl.when(~CONFIGURED & by_plan).then(pl.lit(str(chosen))).otherwise(column)
        alone = pl.when(goes_on).then(pl.lit(str(earlier))).otherwise(own)
        together = f"{column}_together"
        return (
            pl.when(pl.col("verdict_together").is_null())
            .then(alone)
            .otherwise(together)
            .alias(together)
        )

    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    # Beside the columns that are there: a join of all would copy them.
    return audits.hstack(added.drop("audit_id")).with_columns(
        told("verdict", Verdict.VIOLATED, Verdict.INCONCLUSIVE),
        told("reason_code", ReasonCode.EARLIER_NIGHT, ReasonCode.CHOSEN_PLAN),
        _qvalues(audits),
        pl.Series("inputs_changed", changed, dtype=pl.String),
    )


def audited_nights(warehouse: Warehouse, audit_ids: Iterable[str]) -> pl.DataFrame:
    """Return stored audits, current or not, by their ids, as `with_windows` does."""
    asked = pl.col("audit_id").is_in(list(audit_ids))
    return with_windows(warehouse, warehouse.collect(warehouse.scan("audits").filter(asked)))


def _violated_before(warehouse: Warehouse, audits: pl.DataFrame) -> pl.Series:
    """Return the ids of nights that add nothing to others, before which the model was violated.

    A violation goes on, or who spoils an input every night would have a violated model read as one
    without figures.
    """
    named = ("model", "secret", "day")
    silent = audits.filter(~COUNTED_WITH_OTHERS, pl.col("day").is_not_null())
    silent = silent.select(*named, "audit_id").sort("day")
    if silent.is_empty():
        return silent["audit_id"].implode()
    models = silent["model"].unique()
    current = warehouse.current(every_secret=True, models=models, columns=OF_COUNTED)
    nights = current.filter(COUNTED_WITH_OTHERS).sort("day")
    last = silent.join_asof(
        nights.select(*named, last="audit_id"),
        on="day",
        by=("model", "secret"),
        tolerance=dt.timedelta(days=REACH),
        check_sortedness=False,
    )
    before = nights.filter(pl.col("audit_id").is_in(last["last"].drop_nulls().implode()))
    found = nights_together(warehouse, before).filter(
        pl.col("verdict_together") == Verdict.VIOLATED
    )
    return last.filter(pl.col("last").is_in(found["audit_id"].implode()))["audit_id"].implode()


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

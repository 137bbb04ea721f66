"""What nights say together, as it is stored: folded at each commit, and derived where it is not.

A night's columns follow from the nights up to it. So a commit of a day derives those of this day
and of the model's later days, and appends them. A reader takes the last row of each audit. Where
there are rows of the model that no fold has seen, since a commit was cut off before its own, the
reader derives anew: what it reads is the same, and the next commit folds all of the model's nights.
`with_windows` adds it to audits, with what other models of the same night add.
"""

import contextlib
import datetime as dt
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from privcore.exceptions import AuditError, TerminalError
from privcore.lower_bounds import ReasonCode, Verdict, false_discovery_qvalues
from workers.warehouse.changes import input_changes
from workers.warehouse.model_verdict import REACH
from workers.warehouse.night_row import OF_COUNTED, REASON_CODE, VERDICT, NightRow, NightsTogether
from workers.warehouse.schema import AuditRecord, AuditRow, NoteKind, NoteRow
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import without_rows

_TABLE = "audit_nights"
_DERIVED = tuple(NightsTogether.model_fields)
_log = logging.getLogger(__name__)


def nights_together(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return `audit_id` and the columns of `NightsTogether` of those of the audits that count.

    Args:
        warehouse: where they are committed.
        audits: current ones, with the columns `OF_COUNTED`; those that count with no other have no
            row.
    """
    audits = audits.filter(COUNTED_WITH_OTHERS)
    seen = known(warehouse, audits["model"].unique().to_list()).rows
    folded = pl.col("model").is_in(list(seen))
    stored = warehouse.collect(
        warehouse.scan(_TABLE)
        .filter(pl.col("audit_id").is_in(audits.filter(folded)["audit_id"].implode()))
        .sort("folded_at", "rows_known")
        .unique("audit_id", keep="last")
        .select("audit_id", *_DERIVED)
    )
    return pl.concat([stored, derived(warehouse, audits.filter(~folded))])


def derived(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return the same, derived from the nights' e-values."""
    if audits.is_empty():
        return without_rows(NightRow).select("audit_id", *_DERIVED)
    from workers.warehouse.night_windows import epsilon_windows  # noqa: PLC0415  # numba takes long

    return epsilon_windows(warehouse, audits).select("audit_id", *_DERIVED)


def commit_nights(
    warehouse: Warehouse, records: Sequence[AuditRecord]
) -> tuple[bool | TerminalError, ...]:
    """Commit records as `Warehouse.commit_all` does, and fold the nights that they change."""
    with _folding(warehouse, [record.audit for record in records]) as added:
        outcomes = warehouse.commit_all(records)
        for record, outcome in zip(records, outcomes, strict=True):
            added[record.audit.model] += not isinstance(outcome, TerminalError)
    return outcomes


def withdraw_night(warehouse: Warehouse, audit_id: str, why: str) -> NoteRow:
    """Withdraw an audit as `Warehouse.withdraw` does, and fold the nights that this changes."""
    with _folding(warehouse, [warehouse.record(audit_id).audit]) as added:
        row = warehouse.withdraw(audit_id, why)
        added.update(list(added))
    return row


@contextlib.contextmanager
def _folding(warehouse: Warehouse, audits: Iterable[AuditRow]) -> Iterator[Counter[str]]:
    """Fold the nights that a change of these audits changes; the caller counts the rows it adds.

    An error of the fold is logged, since readers derive anew.
    """
    since: dict[str, dt.date] = {}
    for audit in audits:
        since[audit.model] = min(audit.day, since.get(audit.model, audit.day))
    before, added = known(warehouse, since), Counter(dict.fromkeys(since, 0))
    yield added
    if added.total():
        try:
            fold(warehouse, before, since, added)
        except AuditError:
            _log.exception("Nights could not be folded: they are derived at each reading.")


@dataclass(frozen=True, slots=True)
class Known:
    """What of some models, and of those whose drills they are, was known before a change.

    Attributes:
        drills: of each model, itself and the drills that its records name.
        rows: of each, how many rows there were; only where a fold had seen all of them.
    """

    drills: Mapping[str, frozenset[str]]
    rows: Mapping[str, int]


def known(warehouse: Warehouse, models: Collection[str]) -> Known:
    """Return what is known of models, before a commit or a withdrawal."""
    drills = _drills(warehouse, models)
    counts = _rows_known(warehouse, drills)
    last = _folds(warehouse, drills)
    return Known(drills, {one: rows for one, rows in counts.items() if last.get(one, 0) == rows})


def fold(
    warehouse: Warehouse, before: Known, since: Mapping[str, dt.date], added: Mapping[str, int]
) -> None:
    """Derive and store what nights say together, from the first changed day of each model on.

    Where a fold had not seen all rows before, or others came meanwhile, those of all its nights.

    Args:
        warehouse: which was changed.
        before: what was known then.
        since: the first day of each model that was changed.
        added: how many rows of each came.
    """
    now = dt.datetime.now(dt.UTC)  # of two folds the one that began later has seen more
    drills = _drills(warehouse, since)
    counts = _rows_known(warehouse, drills)
    begins = {}
    for model, names in drills.items():
        came = sum(added.get(name, 0) for name in names)
        seen = before.drills.get(model) == names and model in before.rows
        whole = seen and before.rows[model] + came == counts[model]
        first = min(since[name] for name in names if name in since)
        begins[model] = first if whole else dt.date.min
    current = warehouse.current(
        every_secret=True,
        models=pl.Series("model", sorted(drills)),
        columns=tuple(dict.fromkeys((*OF_COUNTED, *TableRow.model_fields))),
    ).filter(COUNTED_WITH_OTHERS)
    begun = pl.col("model").replace_strict(begins, return_dtype=pl.Date(), default=None)
    # The model's last night also where a failed one came: all rows have been seen.
    last = pl.col("day") == pl.col("day").max().over("model")
    wanted = current.filter((pl.col("day") >= begun) | last)
    found = derived(warehouse, wanted)
    rows = wanted.select(*TableRow.model_fields, "model", "day").join(found, on="audit_id")
    warehouse.insert_rows(
        _TABLE,
        [
            NightRow(**row, folded_at=now, rows_known=counts[row["model"]])
            for row in rows.iter_rows(named=True)
        ],
    )


def _drills(warehouse: Warehouse, models: Collection[str]) -> dict[str, frozenset[str]]:
    """Return these models, and those whose drills they are, each with itself and its drills."""
    names = list(models)
    named = pl.col("model").is_in(names) | pl.col("drill").is_in(names)
    found = warehouse.collect(
        warehouse.scan("audits").filter(named).select("model", "drill").unique()
    )
    drills = {model: {model} for model in names}
    for model, drill in found.iter_rows():
        drills.setdefault(model, {model}).update({drill} - {None})
    return {model: frozenset(some) for model, some in drills.items()}


def _rows_known(warehouse: Warehouse, drills: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return how many rows there are of each model and its drills."""
    names = sorted(set().union(*drills.values()))
    audits = warehouse.scan("audits").filter(pl.col("model").is_in(names))
    audits = audits.select("audit_id", "model")
    notes = warehouse.scan("audit_notes").filter(pl.col("kind") != NoteKind.ACKNOWLEDGED)
    noted = notes.select("audit_id").join(audits, on="audit_id").select("model")
    rows = warehouse.collect(pl.concat([audits.select("model"), noted]))
    counts = dict(rows["model"].value_counts().iter_rows())
    return {model: sum(counts.get(name, 0) for name in some) for model, some in drills.items()}


def _folds(warehouse: Warehouse, models: Collection[str]) -> dict[str, int]:
    """Return how many rows of each model the last fold had seen."""
    mine = pl.col("model").is_in(list(models))
    latest = pl.col("rows_known").sort_by("folded_at", "rows_known").last()
    found = warehouse.scan(_TABLE).filter(mine).group_by("model").agg(latest)
    return dict(warehouse.collect(found).iter_rows())


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


def audited_nights(warehouse: Warehouse, audit_ids: Iterable[str]) -> pl.DataFrame:
    """Return stored audits, current or not, by their ids, as `with_windows` does."""
    asked = pl.col("audit_id").is_in(list(audit_ids))
    return with_windows(warehouse, warehouse.collect(warehouse.scan("audits").filter(asked)))


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

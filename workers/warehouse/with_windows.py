"""Audits with what other nights, and other models of the same night, add to each."""

from collections.abc import Callable

import polars as pl

from privcore.lower_bounds import Verdict, false_discovery_qvalues
from workers.warehouse.input_changes import input_changes
from workers.warehouse.night_columns import OF_WINDOWS, STANDING
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, Warehouse

Windows = Callable[[Warehouse, pl.DataFrame], pl.DataFrame]
"""Gives `epsilon_windows` of some current audits: derives it, or knows where it was kept."""


def with_windows(
    warehouse: Warehouse, audits: pl.DataFrame, *, windows: Windows | None = None
) -> pl.DataFrame:
    """Return current audits with what other nights and models add to each.

    Columns added: those of `epsilon_windows` (`windows` if they are not derived); `claim_qvalue`,
    e-BH's over the models of the same night; and `inputs_changed`, what of the inputs an earlier
    record had otherwise. A night without figures, or an exploratory one, ends no violated
    standing: it stands as the last other night before it.
    """
    if windows is None:
        from workers.warehouse.night_windows import (  # noqa: PLC0415  # numba takes long
            epsilon_windows,
        )

        windows = epsilon_windows
    found = windows(warehouse, audits).drop("model", "day")
    ids = audits.select("audit_id")
    added = ids.join(found, on="audit_id", how="left", maintain_order="left").drop("audit_id")
    added = _with_standings_of_before(warehouse, audits, added, windows)
    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    # Beside the columns that are there: a join of all would copy them.
    return audits.hstack(added).with_columns(
        _qvalues(audits), pl.Series("inputs_changed", changed, dtype=pl.String)
    )


def _with_standings_of_before(
    warehouse: Warehouse, audits: pl.DataFrame, added: pl.DataFrame, windows: Windows
) -> pl.DataFrame:
    """Return what is added, with the violated standings that go on where a night adds nothing.

    Else who spoils an input every night would have a violated model read as one without figures.
    """
    named = ("model", "secret", "day")
    silent = audits.filter(~COUNTED_WITH_OTHERS, pl.col("day").is_not_null())
    if silent.is_empty():
        return added
    columns = (*OF_WINDOWS, "status")
    current = warehouse.current(every_secret=True, models=silent["model"].unique(), columns=columns)
    nights = current.filter(COUNTED_WITH_OTHERS).sort("day")
    last = (
        silent.select(*named, "audit_id")
        .sort("day")
        .join_asof(
            nights.select(*named, last="audit_id"),
            on="day",
            by=("model", "secret"),
            check_sortedness=False,
        )
    )
    before = nights.filter(pl.col("audit_id").is_in(last["last"].drop_nulls().implode()))
    found = windows(warehouse, before).filter(pl.col(STANDING) == Verdict.VIOLATED)["audit_id"]
    going_on = last.filter(pl.col("last").is_in(found.implode()))["audit_id"]
    violated = pl.Series(audits["audit_id"].is_in(going_on.implode()))
    return added.with_columns(
        pl.when(violated).then(pl.lit(str(Verdict.VIOLATED))).otherwise(STANDING).alias(STANDING)
    )


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

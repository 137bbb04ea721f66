"""Audits with what other nights, and other models of the same night, add to each."""

from collections.abc import Callable

import polars as pl

from privcore.lower_bounds import false_discovery_qvalues
from workers.warehouse.input_changes import input_changes
from workers.warehouse.store import Warehouse

Windows = Callable[[Warehouse, pl.DataFrame], pl.DataFrame]
"""Gives `epsilon_windows` of some current audits: derives it, or knows where it was kept."""


def with_windows(
    warehouse: Warehouse, audits: pl.DataFrame, *, windows: Windows | None = None
) -> pl.DataFrame:
    """Return current audits with what other nights and models add to each.

    Columns added: those of `epsilon_windows` (`windows` if they are not derived); `claim_qvalue`,
    e-BH's over the models of the same night; and `inputs_changed`, what of the inputs an earlier
    record had otherwise.
    """
    if windows is None:
        from workers.warehouse.night_windows import (  # noqa: PLC0415  # numba takes long
            epsilon_windows,
        )

        windows = epsilon_windows
    found = windows(warehouse, audits).drop("model", "day")
    ids = audits.select("audit_id")
    added = ids.join(found, on="audit_id", how="left", maintain_order="left").drop("audit_id")
    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    # Beside the columns that are there: a join of all would copy them.
    return audits.hstack(added).with_columns(
        _qvalues(audits), pl.Series("inputs_changed", changed, dtype=pl.String)
    )


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_evalue").with_row_index()
    evalue = pl.col("claim_evalue")
    for _, night in numbered.filter(evalue >= 0.0, evalue.is_not_nan()).group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_evalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)

"""Evidence over windows of nights and over the models of a night, derived from what is stored."""

import datetime as dt

import numpy as np
import polars as pl

from privcore.guarantees import Neighbors
from privcore.lower_bounds import Night, false_discovery_qvalues, window_epsilon_lower
from workers.warehouse import Warehouse

WINDOWS = (7, 28)


def with_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return current audits with bounds over windows of nights and with q-values.

    Columns added: `epsilon_lower_7_days` and `epsilon_lower_28_days`, the largest epsilon that the
    product of the e-values of all nights in the window rejects, under the claim of the last night
    (nights under another delta or relation are left out); and `claim_qvalue`, Benjamini and
    Hochberg's over the models of the same night. They are derived anew at each reading, since a
    later record may supersede one of their nights.
    """
    wealth = (
        warehouse.scan("audit_wealth")
        .filter(pl.col("audit_id").is_in(warehouse.current()["audit_id"].to_list()))
        .collect()
    )
    by_id = {row["audit_id"]: row for row in wealth.iter_rows(named=True)}
    windows = {
        f"epsilon_lower_{days}_days": [
            _window(wealth, by_id.get(audit["audit_id"]), days, audit["significance"])
            for audit in audits.iter_rows(named=True)
        ]
        for days in WINDOWS
    }
    columns = [pl.Series(name, values, dtype=pl.Float64) for name, values in windows.items()]
    return audits.with_columns(*columns, _qvalues(audits))


def _window(
    wealth: pl.DataFrame, last: dict[str, object] | None, days: int, significance: float
) -> float | None:
    if last is None:
        return None
    day, delta, classes = last["day"], last["delta"], last["classes"]
    assert isinstance(day, dt.date)  # noqa: S101  # narrows a column's type
    inside = wealth.filter(
        (pl.col("model") == last["model"])
        & (pl.col("day") > day - dt.timedelta(days=days))
        & (pl.col("day") <= day)
        & (pl.col("delta") == delta)
        & (pl.col("classes") == classes)
        & (pl.col("neighbors") == last["neighbors"])
    )
    nights = [
        Night(np.array(row["log_wealth"]), row["records"]) for row in inside.iter_rows(named=True)
    ]
    bound = window_epsilon_lower(
        nights,
        classes=int(inside["classes"][0]),
        delta=float(inside["delta"][0]),
        significance=significance,
    )
    return bound / 2.0 if last["neighbors"] == Neighbors.ADD_REMOVE else bound


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_pvalue").with_row_index()
    for _, night in numbered.filter(pl.col("claim_pvalue").is_not_null()).group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_pvalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)

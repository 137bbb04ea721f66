"""Evidence over windows of nights and over the models of a night, derived from what is stored."""

import bisect
import datetime as dt

import polars as pl

from privcore.guarantees import Neighbors
from privcore.lower_bounds import Night, false_discovery_qvalues, window_epsilon_lower
from workers.warehouse.store import Warehouse

WINDOWS = (7, 28)
_COLUMNS = {days: f"epsilon_lower_{days}_days" for days in WINDOWS}
MEANINGS = {
    column: f"Bound over the {days} days up to this one, under this day's claim; 0 where none."
    for days, column in _COLUMNS.items()
}
"""What the columns of `epsilon_windows` say."""
_CLAIM = ("model", "family", "delta", "classes", "neighbors")


def with_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return current audits with bounds over windows of nights and with q-values.

    Columns added: those of `epsilon_windows`, and `claim_qvalue`, Benjamini and Hochberg's over the
    models of the same night.
    """
    windows = epsilon_windows(warehouse, audits).select("audit_id", *_COLUMNS.values())
    joined = audits.join(windows, on="audit_id", how="left", maintain_order="left")
    return joined.with_columns(_qvalues(audits))


def epsilon_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return the bounds over windows of nights that end with each of the evaluated `audits`.

    Columns: `model`, `day`, `audit_id`, `epsilon_lower_7_days` and `epsilon_lower_28_days`, the
    largest epsilon that the product of the e-values of all nights in the window rejects, under the
    claim of the last night (nights under another family, delta or relation are left out). They are
    derived anew at each reading, since a later record may supersede one of their nights.
    """
    significance = dict(audits.select("audit_id", "significance").iter_rows())
    rows: list[dict[str, object]] = []
    for _, nights in _wealth(warehouse, audits).group_by(_CLAIM):
        rows += _of_one_claim(nights.sort("day"), significance)
    schema: dict[str, type[pl.DataType]] = {
        "model": pl.String,
        "day": pl.Date,
        "audit_id": pl.String,
        **dict.fromkeys(_COLUMNS.values(), pl.Float64),
    }
    return pl.DataFrame(rows, schema=schema).sort("day", "model")


def _wealth(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return what the nights left that can lie in a window of these audits."""
    if not audits.height:
        return warehouse.collect(warehouse.scan("audit_wealth").head(0))
    first = audits["day"].min()
    assert isinstance(first, dt.date)  # noqa: S101  # narrows a column's type
    current = warehouse.current().lazy().select("audit_id")
    return warehouse.collect(
        warehouse.scan("audit_wealth")
        .filter(pl.col("day") > first - dt.timedelta(days=max(WINDOWS)))
        .filter(pl.col("model").is_in(audits["model"].unique().to_list()))
        .join(current, on="audit_id", how="semi")
    )


def _of_one_claim(wealth: pl.DataFrame, significance: dict[str, float]) -> list[dict[str, object]]:
    """Return the windows that end with each night of one model under one claim, in order."""
    claim = wealth.row(0, named=True)
    days = wealth["day"].to_list()
    nights = [
        Night(row.to_numpy(), records)
        for row, records in zip(wealth["log_wealth"], wealth["records"], strict=True)
    ]
    replacements = Neighbors(claim["neighbors"]).replacements
    rows: list[dict[str, object]] = []
    for last, (day, audit_id) in enumerate(zip(days, wealth["audit_id"], strict=True)):
        if audit_id not in significance:
            continue
        row = {"model": claim["model"], "day": day, "audit_id": audit_id}
        for width, column in _COLUMNS.items():
            first = bisect.bisect_right(days, day - dt.timedelta(days=width))
            bound = window_epsilon_lower(
                nights[first : last + 1],
                classes=claim["classes"],
                delta=claim["delta"],
                significance=significance[audit_id],
            )
            row[column] = bound / replacements
        rows.append(row)
    return rows


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_pvalue").with_row_index()
    for _, night in numbered.filter(pl.col("claim_pvalue").is_not_null()).group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_pvalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)

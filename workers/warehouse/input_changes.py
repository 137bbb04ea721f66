"""Inputs that changed after they were audited: the warehouse's records remember what they were."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from workers.warehouse.store import Warehouse

_TARGET = {"target_sha256": "checkpoint", "target_manifest_sha256": "manifest"}
_PROXY = {
    "proxy_sha256": ("target_sha256", "checkpoint"),
    "proxy_manifest_sha256": ("target_manifest_sha256", "manifest"),
}
_COLUMNS = (
    *("audit_id", "model", "day", "proxy_day", "source", "plan", "method_version", "scores"),
    *("revision", "recorded_at", "labels_digest", *_TARGET, *_PROXY),
)
_READ = ("slices", "privacy_unit", "sampling", "attribute", "days", "secret")
"""Fields of a plan that decide which columns of the labels are read, and so digested."""
_OF_NO_ROW = {"version", "privacy", "older_version"}
"""Keys of where rows lie that say nothing of what is read of them."""
_OF_TABLES = pl.col("scores").fill_null("computed") == "supplied"
_DIGITS = 12
"""Number of a digest's digits that are shown."""


def input_changes(warehouse: Warehouse, audits: pl.DataFrame) -> dict[str, str]:
    """Return, by audit id, what each audit read that an earlier record had otherwise.

    Checkpoint, manifest and labels of a day are held against every earlier record of this day, and
    the proxy against the records of *its* day, on which it was the target. Manifests that settings
    stand for change with the settings: of these only what has a file is compared. Labels, and the
    rows of score tables, are compared between audits of one checkpoint that read the same columns
    by the same method. Last, a day's checkpoint is no other day's: a file of an earlier day never
    saw the labels, and one of a later day was not served then.

    *Does not say* that a change is a fault: late labels, compactions and repaired checkpoints
    change inputs, too. Both records stand.
    """
    days = pl.concat([audits["day"], audits["proxy_day"]]).drop_nulls().unique()
    if not days.len():
        return {}
    of_models = pl.col("model").is_in(audits["model"].unique().implode())
    files = audits["target_sha256"].drop_nulls().unique()
    stored = warehouse.collect(
        warehouse.scan("audits")
        .filter(of_models, pl.col("day") >= days.min(), pl.col("day") <= days.max())
        .filter(pl.col("day").is_in(days.implode()))
        .filter(pl.col("target_sha256").is_null() == _OF_TABLES)
        .select(_COLUMNS)
        .sort("revision", "recorded_at", "audit_id")
    )
    by_day: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in stored.iter_rows(named=True):
        by_day.setdefault((row["model"], row["day"]), []).append(row)
    first = warehouse.collect(
        warehouse.scan("audits")
        .filter(of_models, pl.col("target_sha256").is_in(files.implode()))
        .select("model", "target_sha256", "recorded_at", "day", "audit_id")
        .sort("recorded_at", "day", "audit_id", nulls_last=True)
        .unique(("model", "target_sha256"), keep="first", maintain_order=True)
    )
    first_of = {(one["model"], one["target_sha256"]): one for one in first.iter_rows(named=True)}
    wanted, found = set(audits["audit_id"]), {}
    for (model, _), rows in by_day.items():
        for place, row in enumerate(rows):
            if row["audit_id"] not in wanted:
                continue
            then = by_day.get((model, row["proxy_day"]), [])
            told = [*_of_the_day(row, rows[:place]), *_of_the_proxy(row, then)]
            told += _stale(row, first_of.get((model, row["target_sha256"])))
            if told:
                found[str(row["audit_id"])] = f"inputs_changed: {' '.join(told)}"
    return found


def _of_the_day(row: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what of a day is not as an earlier record of it, the latest first, has it."""
    told: dict[str, str] = {}
    for before in reversed(list(earlier)):
        for column, name in _TARGET.items():
            if _differ(row[column], before[column]) and _are_files(column, row, before):
                told.setdefault(name, _sentence(f"{name} of {row['day']}", row, column, before))
        same = row["target_sha256"] == before["target_sha256"] and _way(row) == _way(before)
        if same and _differ(row["labels_digest"], before["labels_digest"]):
            what = "labels" if row["target_sha256"] else "score table's rows"
            changed = _sentence(f"{what} of {row['day']}", row, "labels_digest", before)
            told.setdefault("labels", changed)
    return list(told.values())


def _of_the_proxy(row: Mapping[str, Any], then: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what of the proxy is not as when it was the target."""
    told: dict[str, str] = {}
    for before in then:
        for column, (was, name) in _PROXY.items():
            if _differ(row[column], before[was]) and _are_files(column, row, before):
                what = f"proxy's {name}, of {row['proxy_day']},"
                told.setdefault(name, _sentence(what, row, column, before, was))
    return list(told.values())


def _stale(row: Mapping[str, Any], first: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield that the checkpoint is a file that was first audited for another day."""
    if first is None or first["day"] == row["day"]:
        return
    told = (
        f"The checkpoint of {row['day']} is the file that was audited for {first['day']} (record "
        f"{first['audit_id'][:8]})"
    )
    if first["day"] > row["day"]:
        yield f"{told}, which is later: see which model was served after {row['day']}."
    else:
        yield f"{told}, so it was not trained on labels of {row['day']}: see which model is served."


def _sentence(
    what: str, row: Mapping[str, Any], column: str, before: Mapping[str, Any], was: str = ""
) -> str:
    return (
        f"The {what} changed after its audit: it was {before[was or column][:_DIGITS]} in the "
        f"record {before['audit_id'][:8]} of {before['recorded_at']:%Y-%m-%d %H:%M} UTC, and is "
        f"{row[column][:_DIGITS]} here."
    )


def _differ(now: str | None, before: str | None) -> bool:
    return now is not None and before is not None and now != before


def _are_files(column: str, row: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether both digests are of files: a manifest that settings stand for is none."""
    return "manifest" not in column or row["source"] == before["source"] is None


def _way(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what decides which bytes of the labels an audit digests."""
    plan = json.loads(row["plan"])
    place = None if row["source"] is None else _rows_of(json.loads(row["source"]))
    return row["method_version"], place, *(json.dumps(plan.get(one)) for one in _READ)


def _rows_of(place: Any) -> Any:
    """Return where rows lie and how they are read, whatever the version and the declaration."""
    if not isinstance(place, dict):
        return place
    return {
        name: part if name == "columns" else _rows_of(part)
        for name, part in place.items()
        if name not in _OF_NO_ROW
    }

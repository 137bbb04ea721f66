"""Inputs that changed after they were audited: the warehouse's records remember what they were."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from workers.warehouse.settings_changes import COLUMNS_OF_FEATURES, NO_VERDICT
from workers.warehouse.store import CONFIGURED, INPUT_COLUMNS, REFUTES, Warehouse

_COLUMNS = (
    "audit_id",
    "model",
    "day",
    "proxy_day",
    "source",
    "secret",
    "status",
    "verdict",
    "exploratory",
    "plan",
    "method_version",
    "revision",
    "recorded_at",
    "target_sha256",
    "proxy_sha256",
    "labels_digest",
    "rows_digest",
    "target_manifest_sha256",
    "proxy_manifest_sha256",
    "records",
    "control_records",
    "epsilon_lower",
    "target_log_loss",
    "proxy_log_loss",
)
_FIGURES = _COLUMNS[-5:]
"""Figures that are the same of the same rows, whichever slices are looked at beside them."""
_READ = ("slices", "privacy_unit", "sampling", "attribute", "days", "secret")
"""Fields of a plan that decide which columns of the labels are read, and so digested."""
_TARGET = {"target_sha256": "checkpoint", "target_manifest_sha256": "manifest"}
_PROXY = {
    "proxy_sha256": ("target_sha256", "checkpoint"),
    "proxy_manifest_sha256": ("target_manifest_sha256", "manifest"),
}
_OF_TABLES = pl.col("scores").fill_null("computed") == "supplied"
_KEY = ("model", "day")
_READ_AT_ALL = pl.col("labels_digest").is_not_null()
_OF_NO_ROW = {"version", "privacy", "older_version"}
"""Keys of where rows lie that say nothing of what is read of them."""
_DIGITS = 12
"""Number of a digest's digits that are shown."""


def input_changes(warehouse: Warehouse, audits: pl.DataFrame) -> dict[str, str]:
    """Return, by audit id, what each audit read that an earlier record had otherwise.

    Two things are compared. Checkpoint, manifest and labels of a day are held against every earlier
    record of this day: a day that was audited should not change afterwards. And the proxy is held
    against the records of *its* day, on which it was the target: an owner who replaces yesterday's
    checkpoint by one that knows today's labels, or none, chooses what tonight is compared with.

    Supplied probabilities have no checkpoints, and manifests that settings stand for change with
    the settings: of these only what has a file is compared. Labels, and the rows of score tables,
    are compared between audits of one checkpoint that read the same columns by the same method; the
    same rows in other files are no change. So is the day of the proxy: without yesterday's
    checkpoint, the day is compared with an older one. Last, a day's checkpoint is no other day's,
    since a file of an earlier day never saw the labels, and one of a later day was not served then.
    And it is the one that later days were compared with, where these were audited before. Where an
    earlier record of the day refutes, it is named, since it stays the day's.

    *Does not say* that a change is a fraud: late labels and repaired checkpoints change inputs,
    too. Both records stand.
    """
    days = pl.concat([audits["day"], audits["proxy_day"]]).drop_nulls().unique()
    if not days.len():
        return {}
    known = (
        warehouse.scan("audits")
        .filter(pl.col("model").is_in(audits["model"].unique().implode()))
        .filter(pl.col("day") >= days.min(), pl.col("day") <= days.max())  # files are passed over
        .filter(pl.col("day").is_in(days.implode()))
        .filter(pl.col("target_sha256").is_null() == _OF_TABLES, ~_OF_TABLES | _READ_AT_ALL)
    )
    stored = warehouse.collect(
        known.join(_compared(warehouse, known).lazy(), on=_KEY, how="semi", nulls_equal=True)
        .select(_COLUMNS)
        .sort("revision", "recorded_at", "audit_id")
    )
    by_day: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in stored.iter_rows(named=True):
        by_day.setdefault((row["model"], row["day"]), []).append(row)
    wanted = set(audits["audit_id"])
    found: dict[str, str] = {}
    of_other_days = _of_other_days(warehouse, audits)
    refuting = _refuting(warehouse, stored)
    for (model, _), rows in by_day.items():
        for place, row in enumerate(rows):
            if row["audit_id"] not in wanted:
                continue
            then = by_day.get((model, row["proxy_day"]), [])
            told = [*_of_the_day(row, rows[:place]), *_of_the_proxy(row, then)]
            told += of_other_days.pop(row["audit_id"], [])
            told += _of_a_refutation(
                row, [one for one in rows[:place] if one["audit_id"] in refuting]
            )
            if told:
                found[str(row["audit_id"])] = f"inputs_changed: {' '.join(told)}"
    alone = {name: f"inputs_changed: {' '.join(told)}" for name, told in of_other_days.items()}
    return found | alone


def _of_other_days(warehouse: Warehouse, audits: pl.DataFrame) -> dict[str, list[str]]:
    """Return, by audit id, that the checkpoint is a file that was first audited for another day."""
    digests = audits["target_sha256"].drop_nulls().unique()
    known = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("target_sha256").is_in(digests.implode()))
        .select("model", "target_sha256", "recorded_at", was="day", as_record="audit_id")
        .sort("recorded_at", "was", "as_record", nulls_last=True)
    )
    of_file = ("model", "target_sha256")
    pairs = audits.select(*of_file, "day", "audit_id").join(
        known.unique(of_file, keep="first", maintain_order=True), on=of_file
    )
    others = pairs.filter(pl.col("was") != pl.col("day"))
    found = {row["audit_id"]: [_stale(row)] for row in others.iter_rows(named=True)}
    for row in other_proxies(warehouse, audits).iter_rows(named=True):
        found.setdefault(row["audit_id"], []).append(as_proxy(row))
    return found


def other_proxies(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return the audits whose checkpoint was another file when a later day was compared with it.

    A day that was not audited in time has no earlier record of its own.
    """
    then = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model").is_in(audits["model"].unique().implode()))
        .filter(pl.col("proxy_day").is_in(audits["day"].unique().implode()))
        .select(
            "model",
            day="proxy_day",
            was="proxy_sha256",
            later="day",
            as_record="audit_id",
            seen_at="recorded_at",
        )
        .sort("later", "as_record")
    )
    pairs = audits.select("audit_id", "model", "day", "target_sha256", "recorded_at").join(
        then, on=("model", "day")
    )
    differ = pairs.filter(
        pl.col("was") != pl.col("target_sha256"), pl.col("seen_at") < pl.col("recorded_at")
    )
    return differ.unique("audit_id", keep="first", maintain_order=True)


def as_proxy(row: Mapping[str, Any]) -> str:
    """Return what one of `other_proxies` is, in words."""
    return (
        f"The checkpoint of {row['day']} is another one than {row['later']} was compared with: its "
        f"SHA-256 digest began with {row['was'][:_DIGITS]} in the record {row['as_record'][:8]}, "
        f"and begins with {row['target_sha256'][:_DIGITS]} here."
    )


def _compared(warehouse: Warehouse, known: pl.LazyFrame) -> pl.DataFrame:
    """Return the models and days that may hold a change: most hold none, and are not read whole.

    Those with several records, those whose proxy is not as it was on its day, and its days.
    """
    of_each = warehouse.collect(known.select(*_KEY, "proxy_day", *_TARGET, *_PROXY))
    several = of_each.filter(of_each.select(_KEY).is_duplicated())
    then = of_each.select("model", proxy_day="day", **{f"was_{name}": name for name in _TARGET})
    differ = [pl.col(now).ne(pl.col(f"was_{was}")) for now, (was, _) in _PROXY.items()]
    otherwise = of_each.join(then, on=("model", "proxy_day")).filter(pl.any_horizontal(differ))
    rows = pl.concat([several.select(*_KEY, "proxy_day"), otherwise.select(*_KEY, "proxy_day")])
    proxies = rows.select("model", day="proxy_day").drop_nulls()
    return pl.concat([rows.select(_KEY), proxies]).unique()


def _of_the_day(row: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what of a day is not as an earlier record of it, the latest first, has it."""
    told: dict[str, str] = {}
    for before in reversed(list(earlier)):
        for column, name in _TARGET.items():
            if _differ(row[column], before[column]) and _are_files(column, row, before):
                told.setdefault(name, _sentence(f"{name} of {row['day']}", row, column, before))
        same = not _differ(row["target_sha256"], before["target_sha256"])
        if same and _differs_in_slices(row, before):
            told.setdefault("labels", _other_figures(row, before))
        beside = row["proxy_day"], before["proxy_day"]
        if same and None not in beside and len({*beside}) > 1 and _way(row) == _way(before):
            told.setdefault("proxy", _other_proxy(row, before))
        if (
            same
            and _way(row) == _way(before)
            and _differ(row["labels_digest"], before["labels_digest"])
            and not _same_rows(row, before)
        ):
            what = "labels" if row["target_sha256"] else "score table's rows"
            told.setdefault(
                "labels", _sentence(f"{what} of {row['day']}", row, "labels_digest", before)
            )
    return list(told.values())


def _differs_in_slices(row: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether records of the same models differ in figures, and their plans in no verdict's.

    Their digests are of other columns, so that a slice would hide labels that were rewritten.
    """
    if row["proxy_sha256"] != before["proxy_sha256"] or _way(row) == _way(before):
        return False
    plans = [json.loads(one["plan"]) | dict.fromkeys(NO_VERDICT) for one in (row, before)]
    ways = [_way({**one, "plan": "{}"}) for one in (row, before)]
    pairs = [(row[name], before[name]) for name in _FIGURES]
    differ = any(
        now != was if None in {now, was} else not math.isclose(now, was, rel_tol=1e-9)
        for now, was in pairs
    )
    return plans[0] == plans[1] and ways[0] == ways[1] and differ


def _other_figures(row: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    return (
        f"Rows or labels of {row['day']} changed after its audit: the record "
        f"{before['audit_id'][:8]} has other figures of the same models under the same plan, but "
        "for its slices and promises."
    )


def _of_the_proxy(row: Mapping[str, Any], then: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what of the proxy is not as when it was the target."""
    told: dict[str, str] = {}
    for before in then:
        for column, (was, name) in _PROXY.items():
            if _differ(row[column], before[was]) and _are_files(column, row, before):
                what = f"proxy's {name}, of {row['proxy_day']},"
                told.setdefault(name, _sentence(what, row, column, before, was))
    return list(told.values())


def _refuting(warehouse: Warehouse, stored: pl.DataFrame) -> set[str]:
    """Return the records that refute what was declared for their day, and were not withdrawn."""
    ids = set(stored.filter(REFUTES, CONFIGURED)["audit_id"])
    return ids - warehouse.withdrawn(ids) if ids else ids


def _of_a_refutation(row: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return that an earlier record of other inputs refutes, where this one does not."""
    for before in known:
        if (
            row["verdict"] not in {before["verdict"], None}
            and all(row[name] == before[name] for name in ("secret", "method_version"))
            and any(row[name] != before[name] for name in INPUT_COLUMNS)
        ):
            stays = (
                f"The record {before['audit_id'][:8]} refutes what was declared for {row['day']}, "
                "and stays the day's. If its inputs were wrong, an operator can take it back "
                "(privaudit withdraw)."
            )
            return [stays]
    return []


def _sentence(
    what: str, row: Mapping[str, Any], column: str, before: Mapping[str, Any], was: str = ""
) -> str:
    seen = before[was or column][:_DIGITS]
    return (
        f"The {what} changed after its audit: it was {seen} in the record "
        f"{before['audit_id'][:8]} of {before['recorded_at']:%Y-%m-%d %H:%M} UTC, and is "
        f"{row[column][:_DIGITS]} here."
    )


def _stale(row: Mapping[str, Any]) -> str:
    told = (
        f"The checkpoint of {row['day']} is the file that was audited for {row['was']} (record "
        f"{row['as_record'][:8]})"
    )
    if row["was"] > row["day"]:
        return f"{told}, which is later: see which model was served after {row['day']}."
    return f"{told}, so it was not trained on labels of {row['day']}: see which model is served."


def _other_proxy(row: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    return (
        f"The earlier model of {row['day']} is another one: it was the checkpoint of "
        f"{before['proxy_day']} in the record {before['audit_id'][:8]}, and is that of "
        f"{row['proxy_day']} here."
    )


def _differ(now: str | None, before: str | None) -> bool:
    return now is not None and before is not None and now != before


def _same_rows(row: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether other files hold the same rows, as a compaction writes them."""
    return row["rows_digest"] is not None and row["rows_digest"] == before["rows_digest"]


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
        name: part if name == COLUMNS_OF_FEATURES else _rows_of(part)
        for name, part in place.items()
        if name not in _OF_NO_ROW
    }

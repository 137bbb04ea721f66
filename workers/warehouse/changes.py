"""Changes between nights: of a declaration, of inputs after their audit, of the models audited."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.lower_bounds import Secret
from workers.warehouse.night_row import DATASET, LABEL_COLUMN, TRUST
from workers.warehouse.store import CONFIGURED, Warehouse

COLUMNS = ("epsilon_declared", "delta_declared", "neighbors", "mechanism")
"""Columns of a declaration that are compared."""
CLASSES = "classes"
"""Column with the number of the label's classes, where it is known."""
_OTHERWISE = {
    DATASET: "Audited were labels of {was} until {until}, and are those of {now} on {day}: "
    "see that training saw these.",
    LABEL_COLUMN: "Audited was the label column {was!r} until {until}, and is {now!r} on {day}: "
    "see that training used it as its label.",
    # What an owner supplied must not count as evidence of others.
    TRUST: "The evidence was {was} until {until}, and is {now} on {day}: nights together begin "
    "anew.",
    # Only nights with as many classes are in one window: a class that no row has begins anew.
    CLASSES: "The label had {was} classes until {until}, and has {now} on {day}: "
    "bounds over several nights begin anew.",
}
_WORDS = {"replace": "replacing", "add_remove": "adding or removing", "simulate": "simulating"}


def declaration_change(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    """Return how what a night is held against differs from the night before; None where alike.

    A first night differs from nothing. The mechanism is named where nothing else differs. A
    manifest also says whose labels are audited, in which column and with how many classes. Another
    dataset or column is a change like any other, because the model may never have seen it.

    >>> night = {
    ...     "epsilon_declared": 3.6,
    ...     "delta_declared": 0.0,
    ...     "neighbors": "replace",
    ...     "mechanism": None,
    ...     "day": "2026-04-01",
    ... }
    >>> declaration_change(night, night | {"epsilon_declared": 8.0, "day": "2026-04-02"})
    'Declared was 3.6 for replacing until 2026-04-01, and is 8 for replacing on 2026-04-02.'
    """
    if before is None:
        return None
    changes = (
        _declared_otherwise(before, now),
        *(_manifest_otherwise(before, now, column) for column in _OTHERWISE),
    )
    return " ".join(filter(None, changes)) or None


def _declared_otherwise(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if all(_compared(before, name) == _compared(now, name) for name in COLUMNS):
        return ""
    was, is_now = _worded(before), _worded(now)
    if was == is_now:
        was, is_now = (
            f"{words} by {night['mechanism'] or 'no named mechanism'}"
            for words, night in ((was, before), (is_now, now))
        )
    return f"Declared was {was} until {before['day']}, and is {is_now} on {now['day']}."


def _manifest_otherwise(before: Mapping[str, Any], now: Mapping[str, Any], column: str) -> str:
    was, is_now = before.get(column), now.get(column)
    if was is None or is_now is None or was == is_now:
        return ""
    return _OTHERWISE[column].format(was=was, now=is_now, until=before["day"], day=now["day"])


def _compared(night: Mapping[str, Any], name: str) -> Any:
    """Return a part of a declaration; the relation of none is not compared."""
    return None if night["epsilon_declared"] is None else night[name]


def _worded(night: Mapping[str, Any]) -> str:
    if night["epsilon_declared"] is None:
        return "nothing"
    delta = night["delta_declared"]
    beside = f" (delta {_every_digit(delta)})" if delta else ""
    return f"{_every_digit(night['epsilon_declared'])}{beside} for {_WORDS[night['neighbors']]}"


def _every_digit(value: float) -> str:
    """Return a number as it was declared: 3.6 and 3.600000001 must not read alike."""
    return repr(value).removesuffix(".0")


_TARGET = {"target_sha256": "checkpoint", "target_manifest_sha256": "manifest"}
_PROXY = {
    "proxy_sha256": ("target_sha256", "checkpoint"),
    "proxy_manifest_sha256": ("target_manifest_sha256", "manifest"),
}
_COLUMNS = (
    *("audit_id", "model", "day", "proxy_day", "source", "plan", "method_version"),
    *("revision", "recorded_at", "labels_digest", *_TARGET, *_PROXY),
)
_READ = ("slices", "privacy_unit", "sampling", "attribute", "days", "secret")
"""Fields of a plan that decide which columns of the labels are read, and so digested."""
_OF_NO_ROW = {"version", "privacy"}
"""Keys of where rows lie that say nothing of what is read of them."""
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


LATELY = dt.timedelta(days=7)
"""A model is missed for so long after its last audited day; then it counts as retired."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A model that is missed, or one secret of it.

    Attributes:
        model: its name.
        last_day: the last day that was audited.
        secret: of a listed model, the one whose audit is missed; None where the model is.
    """

    model: str
    last_day: dt.date
    secret: str | None = None

    def sentence(self) -> str:
        """Return what happened, and what to do."""
        if self.secret is not None:
            return (
                f"The {self.secret} audit of {self.model} was last made for {self.last_day}, and "
                "the settings no longer ask for it. Ask for it again, or note why it ended."
            )
        return (
            f"{self.model} was last audited for {self.last_day}, and the settings no longer list "
            "it. List it again, or note why it was retired."
        )


def unlisted_models(
    warehouse: Warehouse, listed: Iterable[tuple[str, str]], day: dt.date
) -> tuple[Unlisted, ...]:
    """Return what was audited in the week before `day` and is not `listed`, models or secrets.

    Args:
        warehouse: of the audits.
        listed: the models, each with the secrets that the settings ask for, as records name them.
        day: the audited day.
    """
    pairs = set(listed)
    names = {model for model, _ in pairs}
    # What a person asked for once, by a plan of their own, is missed by nobody.
    last = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model").is_not_null())
        .filter((pl.col("secret") == Secret.LABEL) | CONFIGURED)
        .group_by("model", of="secret")
        .agg(pl.col("day").max())
        .filter(pl.col("day") >= day - LATELY, pl.col("day") < day)
        .sort("model", "of")
    )
    return tuple(
        Unlisted(model, last_day, of if model in names else None)
        for model, of, last_day in last.iter_rows()
        if (model, of) not in pairs and (model in names or of == Secret.LABEL)
    )

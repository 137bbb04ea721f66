"""Changes between nights: of a declaration, of inputs after their audit, of the models audited."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.lower_bounds import Secret
from workers.warehouse.store import CONFIGURED, Warehouse

_OTHERWISE = {
    "dataset": "Audited were labels of {was} until {until}, and are those of {now} on {day}: "
    "see that training saw these.",
    "label_column": "Audited was the label column {was!r} until {until}, and is {now!r} on {day}: "
    "see that training used it as its label.",
    # What an owner supplied must not count as evidence of others.
    "trust": "The evidence was {was} until {until}, and is {now} on {day}: nights together begin "
    "anew.",
    # Only nights with as many classes are in one window: a class that no row has begins anew.
    "classes": "The label had {was} classes until {until}, and has {now} on {day}: "
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
    told = []
    if _declared(before) != _declared(now):
        words = [_worded(before), _worded(now)]
        if words[0] == words[1]:
            names = (night["mechanism"] or "no named mechanism" for night in (before, now))
            words = [f"{words[0]} by {name}" for name in names]
        told.append(
            f"Declared was {words[0]} until {before['day']}, and is {words[1]} on {now['day']}."
        )
    for column, sentence in _OTHERWISE.items():
        was, is_now = before.get(column), now.get(column)
        if was != is_now:
            told.append(sentence.format(was=was, now=is_now, until=before["day"], day=now["day"]))
    return " ".join(told) or None


def _declared(night: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the parts of a declaration that are compared; None where nothing is declared."""
    parts = ("epsilon_declared", "delta_declared", "neighbors", "mechanism")
    return None if night["epsilon_declared"] is None else tuple(night[name] for name in parts)


def _worded(night: Mapping[str, Any]) -> str:
    if night["epsilon_declared"] is None:
        return "nothing"
    delta = night["delta_declared"]
    beside = f" (delta {_every_digit(delta)})" if delta else ""
    return f"{_every_digit(night['epsilon_declared'])}{beside} for {_WORDS[night['neighbors']]}"


def _every_digit(value: float) -> str:
    """Return a number as it was declared: 3.6 and 3.600000001 must not read alike."""
    return repr(value).removesuffix(".0")


_COMPARED = (
    ("checkpoint of {day}", "target_sha256", "target_sha256"),
    ("manifest of {day}", "target_manifest_sha256", "target_manifest_sha256"),
    ("{labels} of {day}", "labels_digest", "labels_digest"),
    ("proxy's checkpoint, of {proxy_day},", "proxy_sha256", "target_sha256"),
    ("proxy's manifest, of {proxy_day},", "proxy_manifest_sha256", "target_manifest_sha256"),
)
"""Inputs, their columns, and those of the earlier records; of a proxy, when it was the target."""
_COLUMNS = (
    *("audit_id", "model", "day", "proxy_day", "source", "plan", "method_version"),
    *("revision", "recorded_at", *dict.fromkeys(column for _, column, _ in _COMPARED)),
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
        .filter(of_models, pl.col("day").is_between(days.min(), days.max()))
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
            if row["audit_id"] in wanted:
                earlier, then = rows[:place][::-1], by_day.get((model, row["proxy_day"]), [])
                told = list(_changed(row, earlier, then))
                told += _stale(row, first_of.get((model, row["target_sha256"])))
                if told:
                    found[str(row["audit_id"])] = f"inputs_changed: {' '.join(told)}"
    return found


def _changed(
    row: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]], then: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what is not as in an earlier record of the day, or of the proxy's day."""
    labels = "labels" if row["target_sha256"] else "score table's rows"
    for what, column, was in _COMPARED:
        others = then if column.startswith("proxy") else earlier
        before = next((one for one in others if _differ(row, column, one, was)), None)
        if before is not None:
            yield (
                f"The {what.format(**row, labels=labels)} changed after its audit: it was "
                f"{before[was][:_DIGITS]} in the record {before['audit_id'][:8]} of "
                f"{before['recorded_at']:%Y-%m-%d %H:%M} UTC, and is {row[column][:_DIGITS]} here."
            )


def _differ(row: Mapping[str, Any], column: str, before: Mapping[str, Any], was: str) -> bool:
    """Return whether two records that can be compared in a column have it otherwise."""
    if row[column] is None or before[was] is None or row[column] == before[was]:
        return False
    if "manifest" in column:  # one that settings stand for changes with these
        return row["source"] is None and before["source"] is None
    if column == "labels_digest":
        return row["target_sha256"] == before["target_sha256"] and _way(row) == _way(before)
    return True


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
    """A model that is missed, or of a listed one a `secret`, with the last day that was audited."""

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

    Listed are models, each with a secret that the settings ask for, as records name it.
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

"""One incident per model and declaration: it begins, goes on, and is resolved.

The first night on which a declaration is refuted begins an incident. Later refuted nights belong to
it. A night resolves it that refutes nothing and would probably have seen a false declaration: an
input that cannot be read, an unfaithful proxy or a small holdout resolves nothing, or an owner
could arrange the end of an alert. Nor does a night of other labels, of persons in place of rows or
of a plan of one run alone: it says nothing about the refuted one.

While a violation is acknowledged, its nights notify nobody. It notifies again after the last day,
and as soon as a night proves more than was known. An acknowledgement covers one declaration,
label, dataset and unit (`workers.warehouse.acknowledgements`). Without one, a later night notifies
again where it proves more than twice as much as the night that last notified, and 1 more.
"""

import datetime as dt
import hashlib
import itertools
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from privcore.lower_bounds import Verdict
from privcore.lower_bounds.power import sensitive
from workers.remark import doubts_among
from workers.warehouse.acknowledgements import (
    SCOPE,
    Acknowledgement,
    acknowledgements,
    bound_of,
    is_larger,
    latest_of,
    scope_of,
)
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse
from workers.warehouse.with_windows import Windows

REACH = 28
"""Days for which an incident goes on while no night refutes or resolves. Then it begins anew."""
_CLAIM = ("model", "secret", "epsilon_declared", "delta_declared", "neighbors")
_READ = (*SCOPE, "audit_id", "day", "recorded_at", "status", "verdict", "significance",
         "remarks", "epsilon_lower", "epsilon_ceiling", "epsilon_detectable", "exploratory",
         "plan")  # fmt: skip
_LABELS = ("dataset", "label_column")
"""Columns that name whose labels were audited; null in records of earlier versions."""


class Stage(StrEnum):
    """Place of a refuted night in its incident."""

    BEGINS = "begins"
    GOES_ON = "goes on"
    GROWS = "proves more than twice as much"
    ACKNOWLEDGED = "acknowledged"
    WORSE = "worse than acknowledged"
    EXPIRED = "its acknowledgement ended"

    @property
    def notifies(self) -> bool:
        """False of an update, of which nobody hears."""
        return self not in {Stage.GOES_ON, Stage.ACKNOWLEDGED}


@dataclass(frozen=True, slots=True)
class Incident:
    """State of a claim's incident before a night.

    Attributes:
        told: the bound of the last earlier night that notified people, of those that refuted the
            declaration and none resolved since; None where there are none: no incident is open.
        refuted: the last of these nights.
        acknowledged: the last acknowledgement of it; None where there is none.
        known: the largest bound that was acknowledged, or reported since.
        reported: whether a refuted night was recorded after the acknowledgement's last day.
        later: whether a night after this one refutes the declaration, so that this one, which was
            audited afterwards, resolves nothing.
        remarks: of the earlier nights within reach; None where there are none.
    """

    told: float | None = None
    refuted: Mapping[str, Any] | None = None
    acknowledged: Acknowledgement | None = None
    known: float = 0.0
    reported: bool = False
    later: bool = False
    remarks: frozenset[str] | None = None

    def is_resolved_by(self, row: AuditRow, standing: str | None) -> bool:
        """Return whether a night ends the incident; none does while a later night refutes."""
        return (
            self.refuted is not None
            and not self.later
            and resolves(row, standing)
            and _about_the_same(row, self.refuted)
        )

    def stage(self, row: AuditRow, bound: float) -> Stage:
        """Return what a night that proves `bound` of a refuted declaration is to the incident."""
        if self.acknowledged is not None:
            if self.acknowledged.covers_day(row.recorded_at):
                return Stage.WORSE if is_larger(bound, self.known) else Stage.ACKNOWLEDGED
            if not self.reported:
                return Stage.EXPIRED
        if self.told is None:
            return Stage.BEGINS
        return Stage.GROWS if _grows(bound, self.told) else Stage.GOES_ON


def incident_id(row: AuditRow | Mapping[str, Any]) -> str:
    """Return the id that all alerts about one model's refuted declaration share."""
    content = "\0".join(str(part) for part in _claim(row))
    return str(uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4))


def resolves(row: AuditRow | Mapping[str, Any], standing: str | None) -> bool:
    """Return whether a night ends an incident: not refuted, though it could have been seen."""
    declared = _of(row, "epsilon_declared")
    return (
        _of(row, "verdict") == Verdict.CONSISTENT
        and not _of(row, "exploratory")
        and standing != Verdict.VIOLATED
        and declared is not None
        and sensitive(
            epsilon=declared,
            epsilon_ceiling=_of(row, "epsilon_ceiling"),
            epsilon_detectable=_of(row, "epsilon_detectable"),
        )
    )


def _about_the_same(row: AuditRow | Mapping[str, Any], refuted: Mapping[str, Any]) -> bool:
    """Return whether a night is of the labels and the unit of a refuted one, and of its standing.

    A plan that says otherwise whether labels recur begins a new standing, without the evidence.
    """
    labels = [{_of(row, name), refuted[name]} - {None} for name in _LABELS]
    recurs = [_labels_recur(_of(one, "plan")) for one in (row, refuted)]
    return (
        all(len(names) <= 1 for names in labels)
        and _of(row, "privacy_unit") == refuted["privacy_unit"]
        and recurs[0] == recurs[1]
    )


def _labels_recur(plan: str) -> bool:
    """Return what a record's plan says of its labels."""
    return bool(json.loads(plan).get("labels_recur"))


def _evaluated(audits: pl.DataFrame, first: dt.date, last: dt.date) -> pl.DataFrame:
    """Return the evaluated audits of these days and of those that may leave an incident open.

    Exploratory ones begin none: a chosen seed would raise the bound of which people last heard.
    """
    return audits.filter(
        pl.col("day").is_between(first - dt.timedelta(days=REACH), last), COUNTED_WITH_OTHERS
    )


def _by_claim(
    warehouse: Warehouse, audits: pl.DataFrame, windows: Windows
) -> dict[tuple[object, ...], list[dict[str, Any]]]:
    """Return nights with their standings by claim, each in the order of days."""
    found = windows(warehouse, audits).select("audit_id", "standing", "epsilon_standing")
    nights = audits.select(_READ).join(found, on="audit_id", how="left").sort("day").to_dicts()
    of_claim: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for night in nights:
        of_claim.setdefault(_claim(night), []).append(night)
    return of_claim


def incidents_before(
    warehouse: Warehouse, rows: Sequence[AuditRow], windows: Windows = epsilon_windows
) -> dict[str, Incident]:
    """Return the state of each audit's claim before its day, by the audit's id."""
    if not rows:
        return {}
    models = pl.Series("model", sorted({row.model for row in rows}))
    days = {row.day for row in rows}
    current = warehouse.current(every_secret=True, models=models, columns=_READ)
    if len(days) == 1:  # the nights of that day are not before it, and the report lacks them
        current = current.filter(~pl.col("day").is_in(days))
    last = max(days) + dt.timedelta(days=REACH)  # later nights are there in a backfill alone
    of_claim = _by_claim(warehouse, _evaluated(current, min(days), last), windows)
    known = acknowledgements(warehouse, models.to_list())
    return {row.audit_id: _incident(row, of_claim.get(_claim(row), ()), known) for row in rows}


def _incident(
    row: AuditRow, nights: Sequence[Mapping[str, Any]], known: Sequence[Acknowledgement]
) -> Incident:
    (told, refuted), last = _told_before(row.day, nights), latest_of(known, row)
    later = any(night["day"] > row.day and bound_of(night) is not None for night in nights)
    remarks = _remarks_before(row.day, nights)
    if last is None:
        return Incident(told, refuted, later=later, remarks=remarks)
    since = {
        night["recorded_at"]: bound
        for night in nights
        if night["day"] != row.day
        and night["recorded_at"] > last.row.acknowledged_at
        and scope_of(night) == last.scope
        and (bound := bound_of(night)) is not None
    }
    return Incident(
        told,
        refuted,
        last,
        known=max(last.row.epsilon_acknowledged, *since.values(), 0.0),
        reported=not all(last.covers_day(moment) for moment in since),
        later=later,
        remarks=remarks,
    )


def new_remarks(row: AuditRow, incident: Incident) -> tuple[str, ...]:
    """Return what a night remarks on and no night within reach before it did.

    Of a first night the doubts alone: else each model would begin with an alert of what its kind of
    file does not tell.
    """
    if incident.remarks is None:
        return doubts_among(row.remarks)
    return tuple(word for word in row.remarks or () if word not in incident.remarks)


def _remarks_before(day: dt.date, nights: Iterable[Mapping[str, Any]]) -> frozenset[str] | None:
    earlier = [night["remarks"] or () for night in nights if _within_reach(night["day"], day)]
    return frozenset(itertools.chain.from_iterable(earlier)) if earlier else None


def _within_reach(night: dt.date, day: dt.date) -> bool:
    return day - dt.timedelta(days=REACH) <= night < day


def _grows(bound: float, told: float) -> bool:
    """Return whether a night is news: in an incident that a small violation opened it may be."""
    return bound > max(2.0 * told, told + 1.0)


def _told_before(
    day: dt.date, nights: Iterable[Mapping[str, Any]]
) -> tuple[float | None, Mapping[str, Any] | None]:
    """Return the bound that last notified in an incident open before `day`, and its last night.

    Not the largest bound: nights that each prove a little more would never notify again. None of
    both where no incident is open.
    """
    told, refuted = None, None
    for night in nights:
        if not _within_reach(night["day"], day):
            continue
        if (bound := bound_of(night)) is not None:
            told, refuted = bound if told is None or _grows(bound, told) else told, night
        elif (
            refuted is not None
            and resolves(night, night["standing"])
            and _about_the_same(night, refuted)
        ):
            told, refuted = None, None
    return told, refuted


def _claim(row: AuditRow | Mapping[str, Any]) -> tuple[object, ...]:
    """Return the claim: two declarations, or two secrets, are two incidents."""
    return tuple(_of(row, name) for name in _CLAIM)


def _of(row: AuditRow | Mapping[str, Any], name: str) -> Any:
    return getattr(row, name) if isinstance(row, AuditRow) else row[name]

"""One incident per model and declaration: it begins, goes on, and is resolved.

The first night on which a declaration is refuted begins an incident. Later refuted nights belong to
it. A night resolves it after which the model's verdict is no longer `violated`
(`workers.warehouse.model_verdict` says which nights do).

While a violation is acknowledged, its nights notify nobody. It notifies again after the last day,
and as soon as a night proves more than was known. An acknowledgement covers one declaration,
label, dataset and unit (`workers.warehouse.acknowledgements`). Without one, a later night notifies
again where it proves more than twice as much as the night that last notified, and 1 more.
"""

import datetime as dt
import hashlib
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import polars as pl

from privcore.lower_bounds.verdicts import Cause, ReasonCode, Verdict
from privcore.rounding import down
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
from workers.warehouse.model_verdict import REACH
from workers.warehouse.nights_together import AuditedNight, nights_together
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import CONFIGURED, COUNTED_WITH_OTHERS, Warehouse

_CLAIM = ("model", "secret", "epsilon_declared", "delta_declared", "neighbors")
_READ = (*SCOPE, "audit_id", "day", "recorded_at", "status", "verdict", "reason_code", "detail",
         "significance", "remarks", "epsilon_lower", "exploratory")  # fmt: skip


class Stage(StrEnum):
    """Place of a refuted night, or of an acknowledgement, in an incident."""

    BEGINS = "begins"
    GOES_ON = "goes_on"
    GROWS = "grows"
    KNOWN = "known"
    ENDED = "ended"
    ACKNOWLEDGED = "acknowledged"

    @property
    def notifies(self) -> bool:
        """False of an update, of which nobody hears."""
        return self not in {Stage.GOES_ON, Stage.KNOWN}


@dataclass(frozen=True, slots=True)
class Incident:
    """State of a claim's incident before a night.

    Attributes:
        told: the bound of the last earlier night that notified people, of those that refuted the
            declaration and none resolved since; None where there are none: no incident is open.
        acknowledged: the last acknowledgement of it; None where there is none.
        known: the largest bound that was acknowledged, or reported since.
        reported: whether a refuted night was recorded after the acknowledgement's last day.
        later: whether a night after this one refutes the declaration, so that this one, which was
            audited afterwards, resolves nothing.
        words: of the earlier nights within reach, as `_words` returns them.
        first: whether none of these came to figures.
    """

    told: float | None = None
    acknowledged: Acknowledgement | None = None
    known: float = 0.0
    reported: bool = False
    later: bool = False
    words: frozenset[str] = frozenset()
    first: bool = True

    def is_resolved_by(self, night: AuditedNight) -> bool:
        """Return whether a night ends the incident; none does while a later night refutes."""
        return (
            self.told is not None
            and not self.later
            and night.verdict == Verdict.NOT_REFUTED
            and not night.exploratory
            and night.verdict_together != Verdict.VIOLATED
        )

    def place(self, row: AuditRow, bound: float) -> tuple[Stage, str]:
        """Return what a night that proves `bound` is to the incident, and a sentence, or ""."""
        known = self.acknowledged
        if known is not None and known.covers_day(row.recorded_at):
            if not is_larger(bound, self.known):
                return Stage.KNOWN, known.sentence()
            return Stage.GROWS, (
                f"The violation was acknowledged until {known.until}. This night proves "
                f"{down(bound)}, more than the {down(self.known)} that was known, so the "
                "acknowledgement does not cover it."
            )
        if known is not None and not self.reported:
            return Stage.ENDED, f"The acknowledgement of this violation ended on {known.until}."
        if self.told is None:
            return Stage.BEGINS, ""
        if _grows(bound, self.told):
            return Stage.GROWS, (
                f"This night proves {down(bound)}, more than twice the {down(self.told)} that "
                "people last heard of in this incident."
            )
        return Stage.GOES_ON, ""

    def news_of(self, row: AuditRow) -> tuple[str, ...]:
        """Return what a night remarks on, or doubts, and no night within reach before it did.

        Of a first night the doubts alone: else each model would begin with an event of what its
        kind of file does not tell.
        """
        words = _words(vars(row))
        if self.first:
            doubts = doubts_among(row.remarks)
            words = tuple(word for word in words if word == row.reason_code or word in doubts)
        return tuple(word for word in words if word not in self.words)


def incident_id(row: AuditRow) -> str:
    """Return the id that all events about one model's refuted declaration share."""
    content = "\0".join(map(str, _claim(vars(row))))
    return str(uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4))


def incidents_before(warehouse: Warehouse, rows: Sequence[AuditRow]) -> dict[str, Incident]:
    """Return the state of each audit's claim before its day, by the audit's id.

    Exploratory audits begin none: a chosen seed would raise the bound of which people last heard.
    """
    if not rows:
        return {}
    models = pl.Series("model", sorted({row.model for row in rows}))
    days = {row.day for row in rows}
    first, last = min(days) - dt.timedelta(days=REACH), max(days) + dt.timedelta(days=REACH)
    nights = warehouse.current(every_secret=True, models=models, columns=_READ).filter(
        CONFIGURED, pl.col("day").is_between(first, last)
    )  # later nights are there in a backfill alone
    if len(days) == 1:  # the nights of that day are not before it, and the report lacks them
        nights = nights.filter(~pl.col("day").is_in(days))
    together = nights_together(warehouse, nights.filter(COUNTED_WITH_OTHERS)).select(
        "audit_id", "refuted_together", "epsilon_standing", "verdict_together"
    )
    of_claim: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for night in nights.join(together, on="audit_id", how="left").sort("day").to_dicts():
        of_claim.setdefault(_claim(night), []).append(night)
    known = acknowledgements(warehouse)
    return {
        row.audit_id: _incident(row, of_claim.get(_claim(vars(row)), ()), known) for row in rows
    }


def _incident(
    row: AuditRow, nights: Sequence[Mapping[str, Any]], known: Sequence[Acknowledgement]
) -> Incident:
    reach = row.day - dt.timedelta(days=REACH)
    before = [night for night in nights if reach <= night["day"] < row.day]
    last, since = latest_of(known, row), {}
    if last is not None:
        since = {
            night["recorded_at"]: bound
            for night in nights
            if night["day"] != row.day
            and night["recorded_at"] > last.noted_at
            and scope_of(night) == last.scope
            and (bound := bound_of(night)) is not None
        }
    return Incident(
        _told(before),
        last,
        known=0.0 if last is None else max(last.epsilon, *since.values(), 0.0),
        reported=last is not None and not all(last.covers_day(moment) for moment in since),
        later=any(night["day"] > row.day and bound_of(night) is not None for night in nights),
        words=frozenset(itertools.chain.from_iterable(map(_words, before))),
        first=all(night["status"] != Status.EVALUATED for night in before),
    )


def _told(nights: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the bound that last notified in the incident that is open after these nights, if any.

    Not the largest bound: nights that each prove a little more would never notify again.
    """
    told = None
    for night in nights:
        if (bound := bound_of(night)) is not None:
            told = bound if told is None or _grows(bound, told) else told
        elif night["verdict_together"] not in {None, Verdict.VIOLATED}:
            told = None
    return told


def _grows(bound: float, told: float) -> bool:
    """Return whether a night is news: in an incident that a small violation opened it may be."""
    return bound > max(2.0 * told, told + 1.0)


def _words(night: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a night remarks on, and why it is inconclusive, where no remark says it."""
    remarks, code = tuple(night["remarks"] or ()), night["reason_code"]
    if code is None or night["detail"] in remarks:
        return remarks
    asks = ReasonCode(code).cause in {Cause.DOUBT, Cause.DECLARATION}
    return (*remarks, code) if asks else remarks


def _claim(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the claim: two declarations, or two secrets, are two incidents."""
    return tuple(row[name] for name in _CLAIM)

"""Acknowledgements of violations: who knows of one, why, and until when. They change no verdict."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.exceptions import TerminalError
from privcore.lower_bounds import Verdict
from privcore.rounding import down
from workers.plain_text import plain_text
from workers.warehouse.nights_together import with_windows
from workers.warehouse.schema import AuditRow, NoteKind, NoteRow
from workers.warehouse.store import Warehouse, shared

LONGEST = 28
"""Days after today up to which a violation may be acknowledged."""
SCOPE = (
    "model",
    "secret",
    "dataset",
    "label_column",
    "privacy_unit",
    "epsilon_declared",
    "delta_declared",
    "neighbors",
)
"""Columns that must be the same: another declaration, label or dataset is not covered."""
_COLUMNS = {
    "acknowledged_until": pl.Date,
    "acknowledged_by": pl.String,
    "acknowledged_why": pl.String,
}


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One acknowledgement of what a model's night, or its nights together, refute.

    Attributes:
        scope: what it covers, the values of `SCOPE`.
        noted_by: who made it; None where that is unknown.
        until: the last day on which the same violation notifies nobody again.
        epsilon: the largest bound of the violation that was known.
    """

    model: str
    day: dt.date
    scope: tuple[object, ...]
    noted_at: dt.datetime
    noted_by: str | None
    why: str
    until: dt.date
    epsilon: float

    def covers_day(self, moment: dt.datetime) -> bool:
        """Return whether it has not ended at a moment."""
        return moment.astimezone(dt.UTC).date() <= self.until

    def sentence(self) -> str:
        """Return who acknowledged what, until when and why, for people who may read the labels."""
        return plain_text(
            f"{self.noted_by or 'An unknown user'} acknowledged on {self.noted_at:%Y-%m-%d %H:%M} "
            f"UTC, until {self.until}, that {self.model} violates its declaration on {self.day} "
            f"(proved at least {down(self.epsilon)}): {self.why}"
        )


def scope_of(row: AuditRow | Mapping[str, Any]) -> tuple[object, ...]:
    """Return what an acknowledgement of a night's violation covers: the values of `SCOPE`."""
    given = row.model_dump(include=set(SCOPE)) if isinstance(row, AuditRow) else row
    return tuple(given[name] for name in SCOPE)


def bound_of(night: Mapping[str, Any]) -> float | None:
    """Return the largest bound by which a night, or all nights up to it, refute the declaration.

    None where neither does. The night has the columns verdict, refuted_together, epsilon_lower and
    epsilon_standing.
    """
    proved: list[float] = []
    if night["verdict"] == Verdict.VIOLATED:
        proved.append(night["epsilon_lower"] or 0.0)
    if night["refuted_together"]:
        proved.append(night["epsilon_standing"] or 0.0)
    return max(proved, default=None)


def is_larger(bound: float, known: float) -> bool:
    """Return whether a bound exceeds another one as readers see both, with two decimals."""
    return bound > known and down(bound) != down(known)


def acknowledge(
    warehouse: Warehouse,
    audit_id: str,
    *,
    why: str,
    until: dt.date,
    by: str | None,
    now: dt.datetime,
) -> Acknowledgement:
    """Store that somebody knows of a violation, by a night or by its nights together.

    Up to and with the day `until` it notifies nobody again. Record, verdict and exit codes stay.

    Raises:
        TerminalError: no reason, a day in the past or too far ahead, an audit that is not current
            or not violated.
    """
    if not why.strip():
        raise TerminalError("Say why the violation is acknowledged: --why must not be empty.")
    today = now.astimezone(dt.UTC).date()
    last = today + dt.timedelta(days=LONGEST)
    if not today <= until <= last:
        raise TerminalError(
            f"A violation cannot be acknowledged until {until}: give a day from {today} to {last} "
            f"({LONGEST} days). Acknowledge it again when that day is near."
        )
    audit = warehouse.record(audit_id).audit
    models = pl.Series("model", [audit.model])
    current = warehouse.current(every_secret=True, models=models, days=[audit.day])
    mine = current.filter(pl.col("audit_id") == audit_id)
    if mine.is_empty():
        raise TerminalError(
            f"The audit {audit_id} is not the current one of {audit.model} for {audit.day}: "
            "acknowledge the audit that privaudit show --all prints."
        )
    bound = bound_of(with_windows(warehouse, mine).row(0, named=True))
    if bound is None:
        raise TerminalError(
            f"The audit {audit_id} of {audit.model} for {audit.day} is {audit.verdict}, and its "
            "nights together refute nothing: only a violation can be acknowledged."
        )
    row = NoteRow(
        **shared(audit),
        kind=NoteKind.ACKNOWLEDGED,
        noted_at=now,
        noted_by=by,
        why=why.strip(),
        until=until,
        epsilon_acknowledged=bound,
    )
    warehouse.insert_rows("audit_notes", (row,))
    return Acknowledgement(
        audit.model, audit.day, scope_of(audit), now, by, why.strip(), until, bound
    )


def acknowledgements(warehouse: Warehouse) -> tuple[Acknowledgement, ...]:
    """Return every acknowledgement in the order of time; none of an audit that was withdrawn."""
    made = warehouse.collect(warehouse.notes(NoteKind.ACKNOWLEDGED))
    if made.is_empty():
        return ()  # years of audits are not read for none
    withdrawn = warehouse.notes(NoteKind.WITHDRAWN)
    acknowledged = pl.col("audit_id").is_in(made["audit_id"].implode())
    columns = ("noted_at", "noted_by", "why", "until", "epsilon_acknowledged")
    found = warehouse.collect(
        warehouse.scan("audits")
        .filter(acknowledged)
        .join(withdrawn, on="audit_id", how="anti")
        .select("audit_id", "day", *SCOPE)
        .join(made.lazy().select("audit_id", *columns), on="audit_id")
        .sort("noted_at", "audit_id")
    )
    return tuple(
        Acknowledgement(row["model"], row["day"], scope_of(row), *(row[name] for name in columns))
        for row in found.iter_rows(named=True)
    )


def latest_of(
    known: Sequence[Acknowledgement], row: AuditRow | Mapping[str, Any]
) -> Acknowledgement | None:
    """Return the last acknowledgement of what a night is about; a later one replaces it."""
    scope = scope_of(row)
    return next((one for one in reversed(known) if one.scope == scope), None)


def with_acknowledgements(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return audits with who acknowledged their violation, why and until when; null where nobody.

    A violation that proves more than was acknowledged, or that was recorded after the last day, is
    not covered.
    """
    known = acknowledgements(warehouse)
    covering = [_covering(known, night) for night in audits.iter_rows(named=True)]
    shown = [
        (None,) * len(_COLUMNS) if one is None else (one.until, one.noted_by, one.why)
        for one in covering
    ]
    return audits.hstack(pl.DataFrame(shown, schema=_COLUMNS, orient="row"))


def _covering(known: Sequence[Acknowledgement], night: Mapping[str, Any]) -> Acknowledgement | None:
    bound, last = bound_of(night), latest_of(known, night)
    if bound is None or last is None or is_larger(bound, last.epsilon):
        return None
    return last if last.covers_day(night["recorded_at"]) else None

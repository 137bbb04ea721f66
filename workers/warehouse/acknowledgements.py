"""Acknowledgements of violations: who knows of one, why, and until when. They change no verdict."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from privcore.exceptions import TerminalError
from privcore.lower_bounds import Verdict
from privcore.rounding import down
from workers.plain_text import plain_text
from workers.warehouse.commit import insert_rows, shared
from workers.warehouse.later_rows import AcknowledgementRow
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import with_windows

LONGEST = 28
"""Days after today up to which a violation may be acknowledged."""
_WHY = 2_000
"""Characters of a reason, which goes into an alert and onto a page."""
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
_COLUMNS = ("acknowledged_until", "acknowledged_by", "acknowledged_why")


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One acknowledgement."""

    model: str
    day: dt.date
    row: AcknowledgementRow
    scope: tuple[object, ...]
    epsilon_declared: float | None

    @property
    def of_labels(self) -> bool:
        """True if the violation is about labels, and not about another secret."""
        return self.scope[SCOPE.index("secret")] == "label"

    def covers_day(self, moment: dt.datetime) -> bool:
        """Return whether it has not ended at a moment; at the latest it does after `LONGEST`."""
        last = self.row.acknowledged_at.astimezone(dt.UTC).date() + dt.timedelta(days=LONGEST)
        return moment.astimezone(dt.UTC).date() <= min(self.row.until, last)

    def sentence(self) -> str:
        """Return who acknowledged what, until when and why, for people who may read the labels."""
        return plain_text(
            f"{self.row.acknowledged_by or 'An unknown user'} acknowledged on "
            f"{self.row.acknowledged_at:%Y-%m-%d %H:%M} UTC, until {self.row.until}, that "
            f"{self.model} violates its declaration on {self.day} (proved at least "
            f"{down(self.row.epsilon_acknowledged)}): {self.row.why}"
        )


def scope_of(row: AuditRow | Mapping[str, Any]) -> tuple[object, ...]:
    """Return what an acknowledgement of a night's violation covers: the values of `SCOPE`."""
    given = row.model_dump(include=set(SCOPE)) if isinstance(row, AuditRow) else row
    return tuple(given[name] for name in SCOPE)


def bound_of(night: Mapping[str, Any]) -> float | None:
    """Return the largest bound by which a night, or all nights up to it, refute the declaration.

    None where neither does. The night has the columns verdict, standing, epsilon_lower and
    epsilon_standing.
    """
    proved = [
        night[figure] or 0.0
        for word, figure in (("verdict", "epsilon_lower"), ("standing", "epsilon_standing"))
        if night[word] == Verdict.VIOLATED
    ]
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
    """Store that somebody knows of a violation. The record, its verdict and exit codes stay.

    Args:
        warehouse: where the audit is committed.
        audit_id: the current audit of its model, day and secret, whose night or standing is
            violated, at most `LONGEST` days before the model's newest one.
        why: the reason, in the words of who acknowledges.
        until: the last day on which the violation notifies nobody again.
        by: who acknowledges.
        now: the time.

    Raises:
        TerminalError: no reason, a day in the past or too far ahead, an audit that is not current,
            too old, or not violated.
    """
    if not why.strip():
        raise TerminalError("Say why the violation is acknowledged: --why must not be empty.")
    if len(why) > _WHY:
        raise TerminalError(f"--why has {len(why):,} characters: write at most {_WHY:,}.")
    today = now.astimezone(dt.UTC).date()
    last = today + dt.timedelta(days=LONGEST)
    if not today <= until <= last:
        raise TerminalError(
            f"A violation cannot be acknowledged until {until}: give a day from {today} to {last} "
            f"({LONGEST} days). Acknowledge it again when that day is near."
        )
    audit = warehouse.record(audit_id).audit
    night = _current_night(warehouse, audit)
    bound = bound_of(night)
    if bound is None:
        raise TerminalError(
            f"The audit {audit_id} of {audit.model} for {audit.day} is {audit.verdict}, and its "
            "nights together refute nothing: only a violation can be acknowledged."
        )
    row = AcknowledgementRow(
        **shared(audit),
        acknowledged_at=now,
        acknowledged_by=by,
        why=why.strip(),
        until=until,
        epsilon_acknowledged=bound,
    )
    insert_rows(warehouse, "audit_acknowledgements", (row,))
    return Acknowledgement(audit.model, audit.day, row, scope_of(audit), audit.epsilon_declared)


def _current_night(warehouse: Warehouse, audit: AuditRow) -> dict[str, Any]:
    """Return the audit's row among the current ones, with its standing."""
    if audit.status is not Status.EVALUATED:
        raise TerminalError(
            f"The audit {audit.audit_id} of {audit.model} for {audit.day} came to no figures: "
            "acknowledge the last night that did."
        )
    models = pl.Series("model", [audit.model])
    current = warehouse.current(every_secret=True, models=models)
    of_secret = current.filter(pl.col("secret") == audit.secret)
    mine = of_secret.filter(pl.col("audit_id") == audit.audit_id)
    if not mine.height:
        raise TerminalError(
            f"The audit {audit.audit_id} is not the current one of {audit.model} for {audit.day}: "
            "acknowledge the audit that privaudit show --all prints."
        )
    newest: dt.date = of_secret["day"].max()  # type: ignore[assignment]  # polars' union
    if audit.day < newest - dt.timedelta(days=LONGEST):
        raise TerminalError(
            f"The audit {audit.audit_id} is of {audit.day}, more than {LONGEST} days before the "
            f"newest one of {audit.model}: acknowledge a newer violation."
        )
    return next(with_windows(warehouse, mine).iter_rows(named=True))


def acknowledgements(
    warehouse: Warehouse, models: Sequence[str] | None = None
) -> tuple[Acknowledgement, ...]:
    """Return every acknowledgement in the order of time; none of an audit that was withdrawn.

    A row that no command writes is none, such as one of a time to come: it would never end.
    """
    made = warehouse.collect(warehouse.scan("audit_acknowledgements"))
    if made.is_empty():
        return ()  # years of audits are not read for none
    named = pl.col("audit_id").is_in(made["audit_id"].implode())
    withdrawn = warehouse.scan("audit_withdrawals")
    audits = warehouse.scan("audits").filter(named).join(withdrawn, on="audit_id", how="anti")
    if models is not None:
        audits = audits.filter(pl.col("model").is_in(list(models)))
    found = warehouse.collect(
        made.lazy()
        .join(audits.select("audit_id", "day", *SCOPE), on="audit_id")
        .filter(pl.all_horizontal(pl.col("model", "day", "why", "until").is_not_null()))
        .filter(pl.col("epsilon_acknowledged").is_finite())
        .filter(pl.col("acknowledged_at") < dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        .sort("acknowledged_at", "audit_id")
    )
    return tuple(_typed(row) for row in found.iter_rows(named=True))


def _typed(row: Mapping[str, Any]) -> Acknowledgement:
    stored = {name: row[name] for name in AcknowledgementRow.model_fields}
    return Acknowledgement(
        row["model"],
        row["day"],
        AcknowledgementRow.model_validate(stored),
        scope_of(row),
        row["epsilon_declared"],
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
    columns = list(zip(*_shown(known, audits), strict=True)) or [()] * len(_COLUMNS)
    types = (pl.Date(), pl.String(), pl.String())
    return audits.with_columns(
        pl.Series(name, values, dtype=dtype)
        for name, values, dtype in zip(_COLUMNS, columns, types, strict=True)
    )


def _shown(
    known: Sequence[Acknowledgement], audits: pl.DataFrame
) -> Iterator[tuple[dt.date | None, str | None, str | None]]:
    for night in audits.iter_rows(named=True):
        bound, last = bound_of(night), latest_of(known, night)
        if (
            bound is None
            or last is None
            or is_larger(bound, last.row.epsilon_acknowledged)
            or not last.covers_day(night["recorded_at"])
        ):
            yield None, None, None
        else:
            yield last.row.until, last.row.acknowledged_by, last.row.why

"""The records of one model, in order, and which model a reader should see first."""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from workers.records import AuditRow


@dataclass(frozen=True, slots=True)
class History:
    """One model's current records, oldest first; never empty.

    Attributes:
        model: the model's name.
        nights: one record per audited day.
    """

    model: str
    nights: tuple[AuditRow, ...]

    @property
    def latest(self) -> AuditRow:
        """The newest record."""
        return self.nights[-1]

    @property
    def evaluated(self) -> tuple[AuditRow, ...]:
        """The records that came to a bound."""
        return tuple(night for night in self.nights if night.epsilon_lower is not None)

    @property
    def unevaluated(self) -> tuple[AuditRow, ...]:
        """The records that came to none."""
        return tuple(night for night in self.nights if night.epsilon_lower is None)

    @property
    def control_leaks(self) -> tuple[AuditRow, ...]:
        """The records on whose day the control game proved a leak of its own."""
        return tuple(night for night in self.nights if control_leaks(night))

    def at(self, day: dt.date) -> AuditRow | None:
        """Return the record of one day, or None."""
        return next((night for night in self.nights if night.day == day), None)


def histories(audits: pl.DataFrame) -> tuple[History, ...]:
    """Return the history of each model, the worst of the latest night first.

    Args:
        audits: current records, one per model and day, with the columns of `AuditRow`. Columns
            that this version does not know are passed over; a NaN counts as no figure.

    Raises:
        pydantic.ValidationError: a row that is no audit record.
        ValueError: a model with two records of one day.
    """
    known = [name for name in audits.columns if name in AuditRow.model_fields]
    models: dict[str, list[AuditRow]] = defaultdict(list)
    for row in audits.select(known).sort("day").iter_rows(named=True):
        night = AuditRow.model_validate(_without_nan(row))
        if models[night.model] and models[night.model][-1].day == night.day:
            raise ValueError(f"two records of {night.model!r} for {night.day}: pass current ones")
        models[night.model].append(night)
    if not models:
        return ()
    found = [History(model, tuple(nights)) for model, nights in models.items()]
    day = latest_day(found)
    return tuple(sorted(found, key=lambda history: (*_badness(history.at(day)), history.model)))


def latest_day(found: list[History] | tuple[History, ...]) -> dt.date:
    """Return the newest day of any model's records."""
    return max(history.latest.day for history in found)


def control_leaks(night: AuditRow) -> bool:
    """Whether the control game proved a leak where nothing can have been memorised."""
    return night.control_epsilon_lower is not None and night.control_epsilon_lower > 0.0


def sign_rank(night: AuditRow | None) -> int:
    """Return how early a record is shown, 0 first; a missing record counts as not evaluable."""
    return SIGNS[Verdict.NOT_EVALUABLE if night is None else Verdict(night.verdict)].rank


def _badness(night: AuditRow | None) -> tuple[int, float]:
    """Sort by verdict, then by how far the bound is above (or below) what was declared."""
    lower = (night.epsilon_lower if night else None) or 0.0
    declared = (night.epsilon_declared if night else None) or 0.0
    return sign_rank(night), declared - lower


def _without_nan(row: Mapping[str, object]) -> dict[str, object]:
    """Replace NaN by None: neither is a figure."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }

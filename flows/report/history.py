"""The records of one model, in order, and which model a reader should see first."""

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from workers.plain_text import plain_text
from workers.warehouse.schema import AuditRow
from workers.warehouse.table_row import typed_rows


class AuditedNight(AuditRow):
    """One current audit, with what is derived from other nights and models when it is read."""

    epsilon_lower_28_days: float | None = None
    """Bound from this and the 27 days before together."""
    epsilon_ceiling_28_days: float | None = None
    """The most that these 28 days could have proved together."""
    nights_averaged: bool | None = None
    """Whether these nights were averaged, since labels or holdout recur."""
    epsilon_standing: float | None = None
    """Bound from all nights since family, delta or relation last changed."""
    standing: str | None = None
    """violated where all nights, each held against its own declaration, refute that all were true;
    else consistent, doubtful where the night is, or None where nothing is declared."""
    declaration_change: str | None = None
    """How the declaration differs from that of the night before."""
    nights_remark: str | None = None
    """How the audit's settings differ from those of the night before."""
    inputs_changed: str | None = None
    """What of its inputs an earlier record had otherwise."""
    claim_qvalue: float | None = None
    """claim_pvalue, corrected for the models of the same night."""

    @property
    def stands_violated(self) -> bool:
        """True if all nights together refute that every declaration was true."""
        return self.standing == Verdict.VIOLATED


Figure = Callable[[AuditedNight], float | None]


@dataclass(frozen=True, slots=True)
class History:
    """One model's current records, oldest first; never empty."""

    model: str
    nights: tuple[AuditedNight, ...]

    @property
    def latest(self) -> AuditedNight:
        """The newest record."""
        return self.nights[-1]

    @property
    def shown(self) -> AuditedNight:
        """The newest record of a day that can be: one that was mistyped hides no other."""
        tomorrow = dt.timedelta(days=1)
        possible = (n for n in reversed(self.nights) if n.day <= n.recorded_at.date() + tomorrow)
        return next(possible, self.latest)

    @property
    def evaluated(self) -> tuple[AuditedNight, ...]:
        """The records that came to a bound."""
        return tuple(night for night in self.nights if night.epsilon_lower is not None)

    @property
    def unevaluated(self) -> tuple[AuditedNight, ...]:
        """The records that came to none."""
        return tuple(night for night in self.nights if night.epsilon_lower is None)

    @property
    def control_leaks(self) -> tuple[AuditedNight, ...]:
        """The records on whose day the control game proved a leak of its own."""
        return tuple(night for night in self.nights if control_leaks(night))

    def at(self, day: dt.date) -> AuditedNight | None:
        """Return the record of one day, or None."""
        return next((night for night in self.nights if night.day == day), None)

    def since(self, days: int) -> "History":
        """Return the records of the last `days` days, of which the newest record is the last."""
        first = self.latest.day - dt.timedelta(days=days - 1)
        return History(self.model, tuple(night for night in self.nights if night.day >= first))

    def by_day(self, figure: "Figure") -> NDArray[np.float64]:
        """Return a figure of each day from first to last, NaN where there is none or no number."""
        first = self.nights[0].day.toordinal()
        found = np.full(self.latest.day.toordinal() - first + 1, np.nan)
        places = [night.day.toordinal() - first for night in self.nights]
        found[places] = [figure(night) for night in self.nights]
        return np.where(np.isfinite(found), found, np.nan)


def history_of(model: str, audits: pl.DataFrame) -> History:
    """Return the history of one model.

    Args:
        model: its name.
        audits: its current records, at least one, with the columns of `AuditedNight`. Columns that
            this version does not know are passed over; a NaN counts as no figure.

    Raises:
        ValueError: two records of one day.
    """
    nights = typed_rows(AuditedNight, audits.sort("day"))
    for one, other in itertools.pairwise(nights):
        if one.day == other.day:
            raise ValueError(f"two records of {model!r} for {one.day}: pass current ones")
    return History(plain_text(model), nights)


def values(history: History, figure: Figure) -> Iterator[float]:
    """Yield the finite values of a figure, the newest first."""
    for night in reversed(history.nights):
        value = figure(night)
        if value is not None and math.isfinite(value):
            yield value


def last_value(history: History, figure: Figure) -> float | None:
    """Return the newest finite value of a figure."""
    return next(values(history, figure), None)


def worst_first(latest: Mapping[str, AuditedNight]) -> list[str]:
    """Return models by their last record, the worst first."""
    return sorted(latest, key=lambda model: (*_badness(latest[model]), model))


def control_leaks(night: AuditRow) -> bool:
    """Return whether the control game proved a leak where nothing can have been memorised."""
    return night.control_epsilon_lower is not None and night.control_epsilon_lower > 0.0


def sign_rank(night: AuditRow) -> int:
    """Return how early a record is shown, 0 first."""
    return SIGNS[Verdict(night.verdict)].rank


def _badness(night: AuditedNight) -> tuple[int, float]:
    """Sort by verdict, then by how far the bound is above (or below) what was declared."""
    rank = SIGNS[Verdict.VIOLATED].rank if night.stands_violated else sign_rank(night)
    return rank, (night.epsilon_declared or 0.0) - (night.epsilon_lower or 0.0)

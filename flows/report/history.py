"""The records of one model, in order, and which model a reader should see first."""

import datetime as dt
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.next_steps import Card, card_of, rank_of
from privcore.lower_bounds.verdicts import Verdict
from workers.plain_text import plain_text
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.table_row import typed_rows

Figure = Callable[[AuditedNight], float | None]


@dataclass(frozen=True, slots=True)
class History:
    """One model's current records, at least one, oldest first."""

    model: str
    nights: tuple[AuditedNight, ...]

    @property
    def latest(self) -> AuditedNight:
        """The newest record."""
        return self.nights[-1]

    @property
    def card(self) -> Card:
        """What the nights say together, up to the newest one."""
        return card_of(self.latest)

    @property
    def violated_since(self) -> dt.date | None:
        """The first of the last nights after which the model is violated; None where it is not."""
        last = reversed(self.nights)
        violated = itertools.takewhile(lambda one: model_verdict(one) is Verdict.VIOLATED, last)
        return min((night.day for night in violated), default=None)

    @property
    def evaluated(self) -> tuple[AuditedNight, ...]:
        """The records that came to a bound."""
        return tuple(night for night in self.nights if night.epsilon_lower is not None)

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


def worst_first(histories: Iterable[History]) -> list[History]:
    """Return models by their verdict, in the order in which readers should see them."""
    return sorted(histories, key=lambda one: (rank_of(one.card.verdict, one.card.code), one.model))


def model_verdict(night: AuditedNight) -> Verdict:
    """Return the verdict of a model's nights together up to one; the night's own where unknown."""
    return Verdict(night.verdict_together or night.verdict)

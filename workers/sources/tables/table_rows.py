"""Rows of a table of days: which are of the day, which training saw, and what their labels are."""

import datetime as dt
import zoneinfo
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch
from workers.labels.shards import BadRecords
from workers.lake.manifest import LabelColumn
from workers.sources.tables.day_tables import DayTable
from workers.sources.tables.table_days import as_day

_WORDS_TOLD = 3


@dataclass(frozen=True, slots=True)
class DayRows:
    """Reader of a table's rows for one day; each row is asked for its day where files mix them.

    `holdout_key` divides the rows, where the rule is keyed.
    """

    table: DayTable
    day: dt.date
    asked: bool
    holdout_key: bytes = field(default=b"", repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that say the arm and, if rows are asked, the day and when the label was known."""
        asked = [self.table.day] if self.asked and self.table.day is not None else []
        asked += [] if self.table.known_at is None else [self.table.known_at]
        return (self.table.holdout_rule.column, *asked)

    def today(self, batch: Batch) -> NDArray[np.bool_]:
        """Return whether each row is of the day.

        Raises:
            NotEvaluableError: the column holds no days.
        """
        return (self._days(batch) == self.day).fill_null(value=False).to_numpy()

    def _days(self, batch: Batch) -> pl.Series:
        """Return each row's day, null where it says none; the asked one where none is asked."""
        table, name = self.table, self.table.day
        if not self.asked or name is None:
            return pl.repeat(self.day, batch.table.num_rows, dtype=pl.Date, eager=True)

        def made() -> pl.Series:
            column, said = batch.column(name), f"{table.KEY}.day"
            return days_of(column, self.day, table.time_zone, batch.path, said=said)

        return batch.once(("days", name, self.day, table.time_zone), name, made)

    def labels(self, batch: Batch, label: LabelColumn) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a row of another day and for a bad record; and what is bad.

        Raises:
            NotEvaluableError: the columns hold no classes, or no days.
        """
        today, said = self.today(batch), f"{self.table.KEY}.classes"
        labels, bad = batch.labels(label, said=said, among=today)
        # Rows of no day keep their label, so that they are counted as rows that do not play.
        return np.where(today | self._days(batch).is_null().to_numpy(), labels, -1), bad

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether training saw each row; neither of no day, or with a label too late for it.

        Raises:
            NotEvaluableError: a column says no split, or holds no times.
        """
        table, rule = self.table, self.table.holdout_rule
        column = batch.column(rule.column)
        try:
            train, holdout = rule.arms(column, self.holdout_key)
        except TypeError:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{batch.path} stores {rule.column!r} as {column.dtype}, which cannot say train or "
                "holdout: store it as text or as an integer.",
            ) from None
        if table.known_at is not None:
            column, cutoff = batch.column(table.known_at), table.cutoff(self.day)
            said = f"{table.KEY}.known_at"
            early = known_by(column, cutoff, table.time_zone, batch.path, said=said)
            train, holdout = train & early, holdout & early
        # Of a row of no day nobody knows whether training saw it.
        dated = self._days(batch).is_not_null().to_numpy()
        return train & dated, holdout & dated

    def hashed_kind(self, batch: Batch) -> str:
        """Return how a batch stores the column that a hash rule reads; "" without such a rule."""
        rule = self.table.holdout_rule
        if not rule.buckets:
            return ""
        return "integers" if batch.column(rule.column).dtype.is_integer() else "text"

    def where_rows_are(self, left_out: int) -> str:
        """Return which settings say whether a row is the day's, and of which split."""
        table, rule, key = self.table, self.table.holdout_rule, self.table.KEY
        if rule.value is None:
            split = f"see that {rule.column!r}, {key}.split, says train or holdout"
        else:
            split = f"see that {key}.holdout, {table.holdout}, holds for the rows held out"
        if table.known_at is not None:
            split += (
                f", and that labels are known by {table.cutoff(self.day):%Y-%m-%d %H:%M %Z} "
                f"as {table.known_at!r}, {key}.known_at, has it ({key}.cutoff_hours, "
                f"{key}.time_zone)"
            )
        if left_out:
            return f"{left_out:,} rows are of neither split, or of no day: {split}."
        if table.day is None:
            return f"Each row of the table plays: {split}."
        return (
            f"Where these are fewer than the day has, see that {table.day!r}, {key}.day, names "
            f"its day, in the zone {table.time_zone} ({key}.time_zone); {split}."
        )


def known_by(
    column: pl.Series, moment: dt.datetime, zone: str, path: str, *, said: str
) -> NDArray[np.bool_]:
    """Return whether each label was known by a moment; one without a known time was not.

    `said` is the key of the settings that names the column.

    Raises:
        NotEvaluableError: the column holds no times.
    """
    if not isinstance(column.dtype, pl.Datetime):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores {column.name!r}, {said}, as {column.dtype}: store it as a time.",
        )
    at = moment.astimezone(zoneinfo.ZoneInfo(zone))
    if column.dtype.time_zone is None:  # the zone's clock, also of times that the zone skips
        early = column <= at.replace(tzinfo=None)
    else:
        early = column.dt.convert_time_zone(zone) <= at
    return np.asarray(early.fill_null(value=False).to_numpy(), dtype=np.bool_)


def days_of(column: pl.Series, day: dt.date, zone: str, path: str, *, said: str) -> pl.Series:
    """Return each value's day, null where it is missing or none.

    Dates, times (in `zone`), and days as text or integers: 2026-03-02, 20260302. `said` is the key
    of the settings that names the column.

    Raises:
        NotEvaluableError: the column holds something else, days in another form, or `day` in two.
    """
    kind = column.dtype
    if kind == pl.Date:
        return column
    if isinstance(kind, pl.Datetime):
        # A time without a zone is the zone's clock, also one that the zone skips in spring.
        local = column if kind.time_zone is None else column.dt.convert_time_zone(zone)
        return local.dt.date()
    if isinstance(kind, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    elif kind != pl.String and not kind.is_integer():
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores {column.name!r}, {said}, as {kind}: store a date, a time, or text like "
            "2026-03-02.",
        )
    words = column.unique().drop_nulls().sort().to_list()
    days = {word: found for word in words if (found := as_day(word)) is not None}
    if words and not days:
        few = ", ".join(repr(str(word)[:20]) for word in words[:_WORDS_TOLD])
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} holds in {column.name!r}, {said}, values like {few}, which are no days: "
            "store a date, a time, or text like 2026-03-02 or 20260302, or set "
            f"{said} to another column.",
        )
    spelled = [str(word) for word, found in days.items() if found == day]
    if len(spelled) > 1:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} spells the day in {column.name!r}, {said}, as {' and as '.join(spelled)}, and "
            "its rows may be there twice: write one.",
        )
    return column.replace_strict(days, default=None, return_dtype=pl.Date)

"""Rows of a table of days: which are of the day, which training saw, and what their labels are."""

import datetime as dt
import zoneinfo
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch, unknown_label
from workers.labels.shards import BadRecords
from workers.lake.manifest import LabelColumn
from workers.sources.tables.day_tables import DayTable
from workers.sources.tables.table_days import says_day

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
        if not self.asked or self.table.day is None:
            return np.ones(batch.table.num_rows, dtype=np.bool_)
        table, column = self.table, batch.column(self.table.day)
        return of_day(column, self.day, table.time_zone, batch.path, said=f"{table.KEY}.day")

    def _of_no_day(self, batch: Batch) -> NDArray[np.bool_]:
        """Return whether each row's day is missing or none; training may have seen it."""
        if not self.asked or self.table.day is None:
            return np.zeros(batch.table.num_rows, dtype=np.bool_)
        return of_no_day(batch.column(self.table.day))

    def labels(self, batch: Batch, label: LabelColumn) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a row of another day and for a bad record; and what is bad.

        Raises:
            NotEvaluableError: the columns hold no classes, or no days.
        """
        # Rows of no day keep their label, so that they are counted as rows that do not play.
        labels, today = batch.labels(label)[0], self.today(batch)
        bad = self._bad_labels(batch, label, labels, (labels < 0) & today)
        return np.where(today | self._of_no_day(batch), labels, -1), bad

    def _bad_labels(
        self, batch: Batch, label: LabelColumn, labels: NDArray[np.int64], bad: NDArray[np.bool_]
    ) -> BadRecords:
        """Return what is bad among the day's rows alone."""
        if not bad.any():
            return BadRecords.none()
        column, said = batch.column(label.column), f"{self.table.KEY}.classes"
        found = unknown_label(column, label, labels, int(np.argmax(bad)), said=said)
        return batch.bad_rows(bad, Reason.LABEL_INVALID, found)

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
        dated = ~self._of_no_day(batch)
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


def of_day(
    column: pl.Series, day: dt.date, zone: str, path: str, *, said: str
) -> NDArray[np.bool_]:
    """Return whether each value is of the day.

    Dates, times (in `zone`), and days as text or integers: 2026-03-02, 20260302. `said` is the key
    of the settings that names the column.

    Raises:
        NotEvaluableError: the column holds something else, or days in another form.
    """
    kind = column.dtype
    if kind == pl.Date:
        found = column == day
    elif isinstance(kind, pl.Datetime):
        # A time without a zone is the zone's clock, also one that the zone skips in spring.
        local = column if kind.time_zone is None else column.dt.convert_time_zone(zone)
        found = local.dt.date() == day
    elif isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        words = column.cast(pl.String)
        known = [word for word in words.unique().to_list() if word is not None]
        if known and not any(map(_is_day, known)):
            raise _no_days(column.name, path, sorted(known), said)
        spelled = sorted(word for word in known if says_day(word, day))
        if len(spelled) > 1:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{path} spells the day in {column.name!r}, {said}, as {' and as '.join(spelled)}, "
                "and its rows may be there twice: write one.",
            )
        found = words.is_in(spelled)
    elif kind.is_integer():
        known = [str(value) for value in column.unique().to_list() if value is not None]
        if known and not any(map(_is_day, known)):
            raise _no_days(column.name, path, sorted(known), said)
        found = column == int(f"{day:%Y%m%d}")
    else:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores {column.name!r}, {said}, as {kind}: store a date, a time, or text like "
            "2026-03-02.",
        )
    return np.asarray(found.fill_null(value=False).to_numpy(), dtype=np.bool_)


def of_no_day(column: pl.Series) -> NDArray[np.bool_]:
    """Return whether each value of a column that `of_day` takes is missing, or no day."""
    kind, found = column.dtype, column.is_null()
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String or kind.is_integer():
        known = column.unique().drop_nulls().to_list()
        found |= column.is_in([value for value in known if not _is_day(str(value))])
    return np.asarray(found.fill_null(value=True).to_numpy(), dtype=np.bool_)


def _is_day(word: str) -> bool:
    try:
        return says_day(word, dt.date.fromisoformat(word))
    except ValueError:
        return False


def _no_days(name: str, path: str, words: list[str], said: str) -> NotEvaluableError:
    few = ", ".join(repr(word[:20]) for word in words[:_WORDS_TOLD])
    return NotEvaluableError(
        Reason.LABEL_INVALID,
        f"{path} holds in {name!r}, {said}, values like {few}, which are no days: store a "
        f"date, a time, or text like 2026-03-02 or 20260302, or set {said} to another column.",
    )

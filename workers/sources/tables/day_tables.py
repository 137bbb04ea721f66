"""A table of days: where it lies, which rows are of the day, and which of them training saw."""

import datetime as dt
import hmac
import operator
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import mmh3
import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from privcore.lower_bounds.verdicts import Trust
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch
from workers.labels.shards import BadRecords
from workers.lake.manifest import LabelColumn, LabelState, Name, Privacy
from workers.sources.tables.table_days import as_day
from workers.strict_model import StrictModel, known_zone

Kind = Literal["text", "number", "flag", "day", "time", "feature"]
"""Kind of a column, by what settings say that it holds."""
# No part may match blanks that the next may match, too: 300,000 of them would take minutes.
_BUCKET = re.compile(r"bucket\((?P<column>[^,()]+),\s*(?P<count>\d+)\s*\)\s*=\s*(?P<value>\d+)")
_VALUE = re.compile(r"(?P<column>[^=<>!']+)=\s*(?:'(?P<text>[^']*)'|(?P<plain>[\w.+-]+))")
_KEYED = re.compile(r"keyed\((?P<column>[^,()=]+),\s*(?P<share>0?\.\d{1,9})\s*\)")
_MOST, _WORDS_TOLD = 1_000_000, 3


@dataclass(frozen=True, slots=True)
class HoldoutRule:
    """Rule that reads a row's arm.

    Attributes:
        column: that is looked at.
        value: of the rows that were held out; None where `column` says `train` or `holdout`.
        buckets: where not 0, their number: `value` is a bucket by Iceberg's hash of the column.
        keyed_share: where not 0, the share that was held out, by a secret key and the column.
    """

    column: str
    value: str | None = None
    buckets: int = 0
    keyed_share: float = 0.0

    def arms(
        self, column: pl.Series, key: bytes = b""
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each row was trained on, and whether it was held out; null is neither.

        Raises:
            TypeError: the column is of a kind that has no single form as text, or no hash.
        """
        there = column.is_not_null().to_numpy()
        if self.keyed_share:
            held = keyed(column, self.keyed_share, key)
            return there & ~held, there & held
        if self.buckets:
            held = bucket(column, self.buckets) == int(self.value or 0)
            return there & ~held, there & held
        kind = column.dtype
        if not (kind.is_integer() or kind == pl.Boolean or _is_text(kind)):
            raise TypeError(str(kind))
        words = column.cast(pl.Int8) if column.dtype == pl.Boolean else column
        if not isinstance(words.dtype, pl.Categorical):  # whose words compare by their codes
            words = words.cast(pl.String)
        if self.value is None:
            train, holdout = ((words == word).fill_null(value=False).to_numpy()
                              for word in ("train", "holdout"))  # fmt: skip
            return train, holdout
        boolean = {"true": "1", "false": "0"} if column.dtype == pl.Boolean else {}
        value = boolean.get(self.value.lower(), self.value)
        held = (words == value).fill_null(value=False).to_numpy()
        return there & ~held, there & held


def parse_holdout(text: str) -> HoldoutRule:
    """Return the rule that `holdout` states.

    Raises:
        ValueError: it states none, or a bucket that there is not.
    """
    text = text.strip()
    if found := _BUCKET.fullmatch(text):
        count, value = int(found["count"]), int(found["value"])
        if not 2 <= count <= _MOST or value >= count:
            raise ValueError(
                f"{text!r} would hold out no rows or all rows. Use bucket(column, N) = k with "
                f"2 <= N <= {_MOST:,} and 0 <= k < N."
            )
        return HoldoutRule(found["column"].strip().strip("\"'"), str(value), count)
    if not text.startswith(("bucket(", "keyed(")) and (found := _VALUE.fullmatch(text)):
        word = found["plain"] if found["text"] is None else found["text"]
        return HoldoutRule(found["column"].strip().strip('"'), word)
    if found := _KEYED.fullmatch(text):
        share = float(found["share"])
        if share:
            return HoldoutRule(found["column"].strip().strip("\"'"), "", keyed_share=share)
    raise ValueError(
        f"{text!r} is not a rule: write column = 'value', bucket(column, 5) = 0, or "
        "keyed(column, 0.2)"
    )


def keyed(column: pl.Series, share: float, key: bytes) -> NDArray[np.bool_]:
    """Return whether a key holds each value out, null never; shape (rows,).

    HMAC-SHA256 of the value as text (integers by their digits), whose first 8 bytes, the largest
    first, are below the share of 2^64. Who lacks the key cannot tell this split from a random one,
    and cannot choose it; equal values are in one arm.

    Raises:
        TypeError: the column holds neither text nor integers.
    """
    if not key:
        raise ValueError("a keyed holdout needs its key")
    if not (column.dtype.is_integer() or _is_text(column.dtype)):
        raise TypeError(str(column.dtype))
    below = int(share * 2**64).to_bytes(8)
    return np.array(
        [
            value is not None and hmac.digest(key, value.encode(), "sha256")[:8] < below
            for value in column.cast(pl.String).to_list()
        ],
        dtype=np.bool_,
    )


def bucket(column: pl.Series, count: int) -> NDArray[np.int64]:
    """Return each value's bucket by Iceberg's transform, null in bucket 0; shape (rows,).

    Murmur3 (x86, 32 bits, seed 0) of the UTF-8 text or of the integer's 8 bytes, little-endian:
    what Spark's `bucket`, pyiceberg and this function agree on.
    https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements

    Raises:
        TypeError: the column holds neither text nor integers of 64 bits with a sign.
    """
    values: Sequence[Any]
    if column.dtype.is_integer():
        if column.len() and int(column.fill_null(0).max()) >= 1 << 63:  # type: ignore[arg-type]
            raise TypeError(str(column.dtype))
        plain = column.fill_null(0).cast(pl.Int64).to_numpy().astype("<i8").tobytes()
        values = [plain[start : start + 8] for start in range(0, len(plain), 8)]
    elif _is_text(column.dtype):
        values = column.cast(pl.String).fill_null("").to_list()
    else:
        raise TypeError(str(column.dtype))
    hashes = np.fromiter((mmh3.hash(value) for value in values), np.int64, len(values))
    return (hashes & 0x7FFFFFFF) % count


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


WHERE = {"table", "catalog", "version"}
"""Fields that say where a table lies, and nothing of what it means."""


def _rule(text: str) -> str:
    parse_holdout(text)
    return text


class TablePlace(StrictModel):
    """One table: Parquet or CSV files, or a Delta table, or an Iceberg table of a catalogue."""

    table: Name
    """Path or URI of a Delta table, or of a folder of Parquet (or CSV) files with one folder per
    day (day=2026-03-02, its times, or year=2026/month=03/day=02); with catalog, the name of an
    Iceberg table."""
    catalog: Name | None = None
    """Iceberg catalogue that names the table, as pyiceberg's own settings know it (.pyiceberg.yaml,
    or PYICEBERG_CATALOG__<NAME>__URI)."""
    version: int | None = None
    """Version (Delta) or snapshot (Iceberg) to read; the newest if left out."""
    day: Name | None = None
    """Column, or folder, of the day; the first table's if left out."""


class DayTable(TablePlace):
    """A table of records, with what says of each its day, its label's time and its arm."""

    KEY: ClassVar[str]
    """Place of the table in a model's settings, for sentences."""

    day: Name | None = "day"
    """Column, or folder, that says which day it is. None: each row is the day's."""
    time_zone: Annotated[str, AfterValidator(known_zone)] = "UTC"
    """Zone in which a time falls on a day, in rows, folders and partitions; one without an offset
    is its clock."""
    label_state: LabelState = None
    """What the label's column holds: secret, the labels from before any mechanism; or {
    privatised_by = { name, parameters } }; read as secret where nobody says."""
    split: Name = "split"
    """Column that says `train` or `holdout`; rows of other words are left out."""
    holdout: Annotated[str, AfterValidator(_rule)] | None = None
    """Which rows were held out of training, instead of split: column = 'value', bucket(column, 5) =
    0 by Iceberg's hash, or keyed(column, 0.2) by the key of holdout_key_file. All other rows were
    trained on."""
    known_at: Name | None = None
    """Column of the time at which the label was known; a later one is left out."""
    cutoff_hours: float = Field(default=0.0, ge=0.0, le=24.0 * 366.0)
    """How long after the end of the day training read its labels."""
    unit: Name | None = None
    """Column that says whose record it is: the plan's privacy_unit."""
    other_labels: tuple[Name, ...] = Field(default=(), exclude_if=operator.not_)
    """Columns of other labels of the rows that training read, too: the plan's other_labels."""

    @model_validator(mode="after")
    def _of_labels(self) -> Self:
        if self.holdout_rule.keyed_share and self.KEY != "labels":
            raise ValueError(
                "keyed(...) is for [models.labels], since who computes scores knows the split: "
                "hold out by a column, or audit model files"
            )
        return self

    @property
    def holdout_rule(self) -> HoldoutRule:
        """Rule that reads a row's arm."""
        return HoldoutRule(self.split) if self.holdout is None else parse_holdout(self.holdout)

    def cutoff(self, day: dt.date) -> dt.datetime:
        """Return when training read the labels of a day."""
        zone = zoneinfo.ZoneInfo(self.time_zone)
        midnight = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=zone)
        return midnight + dt.timedelta(hours=self.cutoff_hours)


EVERY_ROW = "row"
"""In place of a record's column: every row is a record of its own."""


class ReleasedLabels(TablePlace):
    """A table with the true label of each record, and the one that a mechanism made of it.

    `[models.released_labels]` of the settings.
    """

    day: Name | None = "day"
    """Column, or folder, of the day."""
    true: Name
    """Column of the label that the mechanism read, not of one that was corrected later."""
    released: Name
    """Column of the label that it released."""
    record: Name
    """Column that says whose label it is; row where every row is a record of its own."""
    reads: tuple[Name, ...] = ()
    """Columns that the mechanism reads beside the label and its coin."""
    time: Name | None = None
    """Column that orders the rows, in which neighbours may share a coin."""


class ReleasedNight(StrictModel):
    """Place of a model's released labels, and what is declared of them."""

    released_labels: ReleasedLabels
    privacy: Privacy | None
    """The declaration, of the settings or of the day's manifest."""
    trust: Trust = Trust.SELF
    """Who supplied both labels, as the settings say."""
    target: str | None
    """Digest of the model's file, where a manifest names it."""

    def to_json(self) -> str:
        """Return it as the record keeps it."""
        return self.model_dump_json()


@dataclass(frozen=True, slots=True)
class DayRows:
    """Reader of a table's rows for one day; each row is asked for its day where files mix them.

    `holdout_key` divides the rows, where the rule is keyed. What reads a batch raises
    NotEvaluableError where a column holds no days, classes, split or times.
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
        """Return whether each row is of the day."""
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
        """Return class indices, -1 for another day's row and a bad record; and what is bad."""
        today, said = self.today(batch), f"{self.table.KEY}.classes"
        labels, bad = batch.labels(label, said=said, among=today)
        # Rows of no day keep their label, so that they are counted as rows that do not play.
        return np.where(today | self._days(batch).is_null().to_numpy(), labels, -1), bad

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether training saw each row; neither of no day, or with too late a label."""
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

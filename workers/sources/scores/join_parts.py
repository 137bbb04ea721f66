"""SQL for each table of a join: its rows of the day, then one row a record."""

import datetime as dt
import zoneinfo
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from workers.exceptions import NotEvaluableError, Reason
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import TableDay

_OURS = "privaudit: "
RECORD, DIFFER, CORRECTED, ROWS = (
    f"{_OURS}{name}" for name in ("record", "differ", "corrected", "rows")
)
"""Columns that no table has: a record's name, whether its rows differ, whether its label became
another one, how many rows."""
_UNREAD = pa.schema([])
_TEXT = {"string", "large_string", "string_view"}


@dataclass(frozen=True, slots=True)
class JoinPart:
    """One table of a join.

    Attributes:
        name: `first`, or the role of what it holds.
        found: its files.
        record: column by which it is joined.
        day: column of the day.
        columns: those that are asked for, and what they are called afterwards.
        kinds: of the table's columns, as its first file has them.
        days_before: how many days before the audited one its rows are of.
    """

    name: str
    found: TableDay
    record: str
    day: str
    columns: Mapping[str, str]
    kinds: pa.Schema = _UNREAD
    days_before: int = 0

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that are read of its files."""
        asked = (self.day,) if self.found.day_in_files else ()
        return tuple(dict.fromkeys((self.record, *self.columns, *asked)))


@dataclass(frozen=True, slots=True)
class Join:
    """Tables that are joined by record.

    Attributes:
        tables: what the columns mean.
        day: whose rows are read.
        parts: the tables; the first is the one whose records count.
    """

    tables: ScoreTables
    day: dt.date
    parts: tuple[JoinPart, ...]

    def rows(self, part: JoinPart, source: str) -> str:
        """Return SQL for a table's rows of the day, with the record's name and the asked columns.

        Of labels that came one after the other, those that training could know. Rows without a
        record's name stay, of the first table: they are counted.

        Raises:
            NotEvaluableError: the columns hold no days, times or names.
        """
        tables, kinds = self.tables, part.kinds
        record = quoted(part.record)
        record = f"CAST({record} AS VARCHAR)" if self._compares_as_text() else record
        where = ["true"] if part is self.parts[0] else [f"{record} IS NOT NULL"]
        if part.found.day_in_files:
            day = self.day - dt.timedelta(days=part.days_before)
            where.append(of_day(part.day, kinds.field(part.day).type, day, tables.time_zone))
        if (known := tables.known_at) is not None and known in part.columns:
            cutoff = moment(kinds.field(known).type, tables.cutoff(self.day), tables.time_zone)
            where.append(f"{quoted(known)} <= {cutoff}")
        asked = [f"{quoted(name)} AS {quoted(new)}" for name, new in part.columns.items()]
        chosen = ", ".join([f"{record} AS {quoted(RECORD)}", *asked])
        return f"SELECT {chosen} FROM {quoted(source)} WHERE {' AND '.join(where)}"  # noqa: S608

    def one_each(self, part: JoinPart, rows: str) -> str:
        """Return SQL that makes one row of each record's rows, and says whether these differed."""
        names = [quoted(new) for new in part.columns.values()]
        content = f"hash({', '.join(names)})"
        values = {name: f"any_value({name})" for name in names}
        differ, corrected = f"min({content}) <> max({content})", "false"
        known = self.tables.known_at
        if known is not None and known in part.columns:
            # Of labels that came one after the other, the last that training could know.
            last = f"{{'at': {quoted(part.columns[known])}, 'content': {content}}}"
            # Wrapped, as a label that was withdrawn is the last, too: arg_max passes over null.
            values = {name: f"(arg_max({{'v': {name}}}, {last})).v" for name in names}
            differ = "false"
            label = f"hash({', '.join(quoted(part.columns[name]) for name in self._labels(part))})"
            corrected = f"min({label}) <> max({label})"
        chosen = "".join(f", {value} AS {name}" for name, value in values.items())
        return (
            f"CREATE TEMP TABLE {quoted(part.name)} AS SELECT {quoted(RECORD)}{chosen}, "  # noqa: S608
            f"{differ} AS {quoted(DIFFER)}, {corrected} AS {quoted(CORRECTED)}, "
            f"count(*) AS {quoted(ROWS)} "
            f"FROM ({rows}) GROUP BY {quoted(RECORD)}"
        )

    def _labels(self, part: JoinPart) -> list[str]:
        """Return the label's columns of a table."""
        return [name for name in self.tables.columns_of("label") if name in part.columns]

    @property
    def joined(self) -> str:
        """SQL for all records of the first table beside what the others say of them."""
        first = quoted(self.parts[0].name)
        return first + "".join(
            f" LEFT JOIN {quoted(part.name)} ON {of(part, RECORD)} = {first}.{quoted(RECORD)}"
            for part in self.parts[1:]
        )

    @property
    def whole(self) -> str:
        """SQL for the joined rows that play, sorted by record."""
        first, *others = self.parts
        bad = [f"coalesce({of(part, DIFFER)}, false)" for part in self.parts]
        bad += [f"{of(part, RECORD)} IS NULL" for part in others]
        names = dict.fromkeys(quoted(new) for part in self.parts for new in part.columns.values())
        return (
            f"SELECT {', '.join(names)} FROM {self.joined} "  # noqa: S608
            f"WHERE {of(first, RECORD)} IS NOT NULL AND NOT ({' OR '.join(bad)}) "
            f"ORDER BY {of(first, RECORD)}"
        )

    def _compares_as_text(self) -> bool:
        """Return whether some tables name records by text, and others by whole numbers.

        Raises:
            NotEvaluableError: records are neither text nor whole numbers.
        """
        kinds = [part.kinds.field(part.record).type for part in self.parts]
        for part, kind in zip(self.parts, kinds, strict=True):
            if not (pa.types.is_integer(kind) or is_text(kind)):
                raise NotEvaluableError(
                    Reason.LABEL_INVALID,
                    f"{part.found.name} stores {part.record!r}, scores.record, as {kind}: "
                    "store text or an integer, as the other tables do.",
                )
        return any(map(is_text, kinds)) and not all(map(is_text, kinds))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text, encoded or not."""
    return str(kind) in _TEXT or pa.types.is_dictionary(kind)


def of(part: JoinPart, column: str) -> str:
    """Return SQL for a column of a table's records."""
    return f"{quoted(part.name)}.{quoted(column)}"


def of_day(name: str, kind: pa.DataType, day: dt.date, zone: str) -> str:
    """Return SQL for whether a row is of the day.

    Raises:
        NotEvaluableError: the column's kind holds no days.
    """
    column = quoted(name)
    if pa.types.is_date(kind):
        return f"{column} = DATE '{day}'"
    if pa.types.is_timestamp(kind):
        start = dt.datetime.combine(day, dt.time(), tzinfo=zoneinfo.ZoneInfo(zone))
        end = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=start.tzinfo)
        first, last = (moment(kind, at, zone) for at in (start, end))
        return f"{column} >= {first} AND {column} < {last}"
    if pa.types.is_integer(kind):
        return f"{column} = {day:%Y%m%d}"
    if is_text(kind):
        return f"{column} IN ('{day}', '{day:%Y%m%d}')"
    raise NotEvaluableError(
        Reason.LABEL_INVALID,
        f"{name!r}, scores.day, is stored as {kind}: store a date, a time, or text like "
        "2026-03-02.",
    )


def moment(kind: pa.DataType, at: dt.datetime, zone: str) -> str:
    """Return a moment as SQL that compares with a column of times; one without zone is `zone`'s.

    Raises:
        NotEvaluableError: the column's kind holds no times.
    """
    if not pa.types.is_timestamp(kind):
        raise NotEvaluableError(
            Reason.LABEL_INVALID, f"scores.known_at is stored as {kind}: store it as a time."
        )
    if kind.tz is None:
        return f"TIMESTAMP '{at.astimezone(zoneinfo.ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}'"
    return f"TIMESTAMPTZ '{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}+00'"


def check_names(parts: Sequence[JoinPart]) -> None:
    """Raise `NotEvaluableError` where DuckDB, to which case is nothing, would confuse columns."""
    first, *others = parts
    renamed = [new for part in others for name, new in part.columns.items() if new != name]
    for names in (*(part.needed for part in parts), (*first.columns, *renamed)):
        times = Counter(name.lower() for name in names)
        for name in names:
            low = name.lower()
            if times[low] > 1 or low == "rowid" or low.startswith(_OURS):
                raise NotEvaluableError(
                    Reason.LABEL_INVALID,
                    f"A join cannot tell the column {name!r} from others: names differ by more "
                    "than case, and none is rowid or begins with privaudit. Rename it.",
                )


def quoted(name: str) -> str:
    """Return a name as SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'

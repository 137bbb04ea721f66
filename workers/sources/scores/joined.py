"""Tables joined by record: a row for each record, sorted, in a file of its own.

One worker joins, in its memory. What the tables say twice or differently, and records that one of
them lacks, are counted and left out; the audit's `max_bad_records` decides whether that may be.
"""

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError, Reason
from workers.executors import DeadlinePassedError
from workers.labels.columns import Batch
from workers.labels.parquet import Footer, read_footer, read_row_group
from workers.labels.shards import BadRecords
from workers.lake import limits
from workers.lake.layout import LabelFile, Lake, patiently
from workers.memory import memory_left
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import TableDay
from workers.sources.tables.table_rows import days_of, known_by

_FILE = "joined.parquet"
_RECORD = "privaudit: record"
"""Column of a record's name, beside those that are asked for."""
_TEXT = {"string", "large_string", "string_view"}
_BATCH_ROWS, _GROUP_ROWS = 1 << 18, 1 << 20
_UNREAD = pa.schema([])


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
    """

    name: str
    found: TableDay
    record: str
    day: str
    columns: Mapping[str, str]
    kinds: pa.Schema = _UNREAD

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that are read of its files."""
        asked = (self.day,) if self.found.day_in_files else ()
        return tuple(dict.fromkeys((self.record, *self.columns, *asked)))


@dataclass(frozen=True, slots=True)
class Join:
    """Tables that are joined by record, the first of which has those that count."""

    tables: ScoreTables
    day: dt.date
    parts: tuple[JoinPart, ...]


def flattened(tables: ScoreTables) -> ScoreTables:
    """Return what the joined table's columns mean: those of other tables say whose they are."""
    changes = {
        role: tuple(f"{role}: {name}" for name in tables.columns_of(role))
        if len(tables.columns_of(role)) > 1
        else f"{role}: {tables.columns_of(role)[0]}"
        for role in tables.others
    }
    return tables.model_copy(update=changes)


def join(
    tables: ScoreTables,
    found: Mapping[str, TableDay],
    day: dt.date,
    *,
    also: Iterable[str],
    joining: JoinContext,
) -> tuple[Lake, tuple[str, ...], BadRecords]:
    """Write the day's records, one row each and sorted, to a file that all workers reach.

    Returns:
        Where the file lies, what it is called, and what was left out: records that a table gives
        twice with different values, and records of the first table that another table lacks. Where
        labels say when they were known (`known_at`), the latest that training could know counts,
        and others are no mistake.

    Raises:
        NotEvaluableError: a column is missing, a file is damaged, or the deadline passed.
    """
    footers = [
        (part, [_footer(part, file) for file in part.found.files])
        for part in _parts(tables, found, also)
    ]
    parts = tuple(
        dataclasses.replace(part, kinds=_kinds(part, each, tables.context))
        for part, each in footers
    )
    scratch_folder = joining.scratch_folder()
    try:
        counted = joining.executor.fold(
            _join,
            scratch_folder,
            [Join(tables, day, parts)],
            on_done=lambda _: None,
            deadline=joining.deadline,
        )
    except DeadlinePassedError:
        raise joining.too_late(
            "the tables were joined: begin earlier, or join them before the audit, into one table"
        ) from None
    assert counted is not None  # noqa: S101  # of one item
    return scratch_folder, (_FILE,), _left_out(parts, counted)


class _OfPart(NamedTuple):
    """Records of one table: there twice, and lacking of the first table's."""

    repeated: int
    lacking: int


class _Counts(NamedTuple):
    """Counts of a join: the first table's rows without a record, and records of each table."""

    nameless: int
    parts: tuple[_OfPart, ...]


def _footer(part: JoinPart, file: LabelFile) -> Footer:
    """Read a footer where it may crash."""
    return read_footer(part.found.root, file.name, part.needed, listed=file)


def _kinds(part: JoinPart, footers: Sequence[Footer], context: Collection[str]) -> pa.Schema:
    """Return the kinds of the asked columns; what is encoded is read as what it stands for.

    Raises:
        NotEvaluableError: a file lacks a column; of `context`, all files do.
    """
    for name in part.needed:
        having = [name in footer.names for footer in footers]
        if not (any(having) if name in context else all(having)):
            place = having.index(False)
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{part.found.files[place].name} of {part.found.name} has no column {name!r}: "
                f"correct scores in the settings; it has {', '.join(footers[place].names[:20])}.",
            )
    return pa.schema([(name, _kind(footers, name)) for name in part.needed])


def _kind(footers: Sequence[Footer], name: str) -> pa.DataType:
    """Return a column's kind in the first file that holds a value of it."""
    kinds = (footer.schema().field(name).type for footer in footers if name in footer.names)
    kind = next((each for each in kinds if not pa.types.is_null(each)), pa.null())
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _join(scratch_folder: Lake, join: Join) -> tuple[None, _Counts]:
    """Join the rows, write them, and return how many records are bad."""
    parts, kind = join.parts, _compared_as(join.parts)
    # Rows that are joined take four times their bytes at most (docs/evidence/performance.md).
    room = min(limits.JOIN_BYTES, (memory_left() or 1 << 63) // 4)
    nameless = 0
    whole = records = pl.DataFrame()
    counted: list[_OfPart] = []
    for place, part in enumerate(parts):
        frame = _rows_of_day(part, join, room)
        room -= int(frame.estimated_size())
        if place == 0:
            nameless = frame[_RECORD].null_count()
            frame = frame.drop_nulls(_RECORD)
        frame = frame if kind is None else frame.with_columns(pl.col(_RECORD).cast(kind))
        each = _one_each(part, frame, join.tables)
        del frame
        if place == 0:
            whole, records = each.rows, each.rows.select(_RECORD)
        counted.append(
            _OfPart(
                repeated=records.join(each.differing, on=_RECORD, how="semi").height,
                lacking=records.join(each.rows, on=_RECORD, how="anti").height,
            )
        )
        whole = whole.join(each.differing, on=_RECORD, how="anti")
        whole = whole if place == 0 else whole.join(each.rows, on=_RECORD, how="inner")
    names = dict.fromkeys(new for part in parts for new in part.columns.values())
    _write(whole.sort(_RECORD).select(*names), scratch_folder)
    return None, _Counts(nameless, tuple(counted))


def _rows_of_day(part: JoinPart, join: Join, room: int) -> pl.DataFrame:
    """Return a table's rows of the day.

    Of labels that came one after the other, those that training could know; in `room` bytes.

    Raises:
        NotEvaluableError: a file is damaged, was replaced, or stores a column otherwise than the
            first file of its table; or all rows are more than one worker joins.
        TransientError: storage kept failing.
    """
    root, columns = part.found.root, part.needed
    frames = [_frame(Batch(part.kinds.empty_table(), part.found.name, ("", 0, 0)))]
    for file in part.found.files:
        footer = read_footer(root, file.name, columns, listed=file)
        for index in range(len(footer.groups)):
            group = read_row_group(root, file.name, footer, index, columns)
            for table in group.batches(columns, rows=_BATCH_ROWS):
                read = _as(table, part.kinds, file.name)
                batch = Batch(read, file.name, (file.name, index, 0))
                frames.append(_frame(batch).filter(_plays(part, join, batch)))
                room -= int(frames[-1].estimated_size())
                if room < 0:
                    raise NotEvaluableError(
                        Reason.TOO_LARGE,
                        "The day's rows of the tables that are joined take more memory than one "
                        f"worker has for them ({limits.JOIN_BYTES >> 30} GiB, or a quarter of what "
                        "is free): join them before the audit, into one table.",
                    )
    asked = [pl.col(name).alias(new) for name, new in part.columns.items()]
    rows = pl.concat(frames, rechunk=False)
    return rows.select(pl.col(part.record).alias(_RECORD), *asked)


def _frame(batch: Batch) -> pl.DataFrame:
    """Return a batch's columns, read where a value that nobody can read is a sentence."""
    return pl.DataFrame([batch.column(name) for name in batch.table.column_names])


def _plays(part: JoinPart, join: Join, batch: Batch) -> NDArray[np.bool_]:
    """Return which rows play."""
    tables, zone = join.tables, join.tables.time_zone
    plays = np.ones(batch.table.num_rows, dtype=np.bool_)
    if part is not join.parts[0]:  # those of the first table are counted
        plays &= batch.column(part.record).is_not_null().to_numpy()
    if part.found.day_in_files:
        column = batch.column(part.day)
        days = days_of(column, join.day, zone, batch.path, said="scores.day")
        plays &= (days == join.day).fill_null(value=False).to_numpy()
    if (known := tables.known_at) is not None and known in part.columns:
        column, cutoff = batch.column(known), tables.cutoff(join.day)
        plays &= known_by(column, cutoff, zone, batch.path, said="scores.known_at")
    return plays


class _Each(NamedTuple):
    """One row of each record, and the records whose rows differ."""

    rows: pl.DataFrame
    differing: pl.DataFrame


def _one_each(part: JoinPart, frame: pl.DataFrame, tables: ScoreTables) -> _Each:
    """Return one of each record's rows: of labels that came one after the other, the last."""
    again = frame[_RECORD].is_duplicated()
    none = frame.select(_RECORD).clear()
    if not again.any():
        return _Each(frame, none)
    once, several = frame.filter(~again), frame.filter(again).unique()
    known = None if tables.known_at is None else part.columns.get(tables.known_at)
    if known is None:
        last = several.unique(_RECORD)
        differing = several.filter(several[_RECORD].is_duplicated()).select(_RECORD).unique()
        return _Each(pl.concat([once, last]), differing)
    # Where two came at one time their content decides, and no order of rows.
    order = (_RECORD, known, pl.struct(pl.all()).hash())
    last = several.sort(*order).unique(_RECORD, keep="last", maintain_order=True)
    return _Each(pl.concat([once, last]), none)


def _compared_as(parts: Sequence[JoinPart]) -> type[pl.DataType] | None:
    """Return as what records' names are compared; None where all tables store them as one kind.

    Raises:
        NotEvaluableError: records are neither text nor whole numbers.
    """
    kinds = [part.kinds.field(part.record).type for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        if not (pa.types.is_integer(kind) or str(kind) in _TEXT):
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{part.found.name} stores {part.record!r}, scores.record, as {kind}: "
                "store text or an integer, as the other tables do.",
            )
    if any(str(kind) in _TEXT for kind in kinds):
        return pl.String
    return None if len(set(kinds)) == 1 else pl.Int128


def _as(table: pa.Table, kinds: pa.Schema, file: str) -> pa.Table:
    try:
        return table.select(kinds.names).cast(kinds)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{file} stores columns otherwise than the first file of its table, which has "
            f"{', '.join(f'{field.name} as {field.type}' for field in kinds)}: write all files of "
            "a table with the same columns.",
        ) from None


def _write(rows: pl.DataFrame, scratch_folder: Lake) -> None:
    """Write rows to a scratch file, whose bytes depend on the rows alone."""
    table = rows.rechunk().to_arrow()

    def write() -> None:
        # Plain pages, whose bytes are digested.
        plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with (
            scratch_folder.create(_FILE) as stream,
            pq.ParquetWriter(stream, table.schema, **plain) as writer,
        ):
            for batch in table.to_batches(_GROUP_ROWS):
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)

    patiently(write, _FILE)


def _left_out(parts: tuple[JoinPart, ...], counts: _Counts) -> BadRecords:
    """Return what was left out of the join, in words."""
    first, bad = parts[0], BadRecords.none()
    if counts.nameless:
        bad += BadRecords.at(
            (first.found.root.uri, 0, 0),
            counts.nameless,
            Reason.RECORD_UNJOINED,
            f"{counts.nameless:,} rows of {first.found.name} have no value in "
            f"{first.record!r}, scores.record: name every record.",
        )
    for part, (repeated, lacking) in zip(parts, counts.parts, strict=True):
        place = (part.found.root.uri, 0, 0)
        if repeated:
            bad += BadRecords.at(
                place,
                repeated,
                Reason.RECORD_REPEATED,
                f"{repeated:,} records of {part.found.name} are there twice, with different "
                "values: keep one row for each, or name scores.known_at if labels were corrected.",
            )
        if lacking:
            bad += BadRecords.at(
                place,
                lacking,
                Reason.RECORD_UNJOINED,
                f"{lacking:,} records have no row in {part.found.name}: see that "
                f"{part.record!r} names the same records in all tables, and that its rows of the "
                "day are complete.",
            )
    return bad


def first_columns(tables: ScoreTables, also: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are read of the first table, if its rows are all of the day."""
    return tuple(dict.fromkeys((str(tables.record), *_asked_of_first(tables, also))))


def _asked_of_first(tables: ScoreTables, also: Iterable[str]) -> list[str]:
    mine, others = [tables.holdout_rule.column, *also], tables.others
    for role in tables.roles:
        mine += [] if role in others else tables.columns_of(role)
    if tables.known_at is not None and "label" not in others:
        mine.append(tables.known_at)
    return mine


def _parts(
    tables: ScoreTables, found: Mapping[str, TableDay], also: Iterable[str]
) -> list[JoinPart]:
    known, others = tables.known_at, tables.others
    record = str(tables.record)
    mine = {name: name for name in _asked_of_first(tables, also)}
    parts = [JoinPart("first", found[""], record, tables.day, mine)]
    for role, other in others.items():
        columns = {name: f"{role}: {name}" for name in tables.columns_of(role)}
        if role == "label" and known is not None:
            columns[known] = known
        names = other.record or record, other.day or tables.day
        parts.append(JoinPart(role, found[role], *names, columns))
    times = Counter(new for part in parts for new in part.columns.values())
    times[_RECORD] += 1
    for name in (name for name, count in times.items() if count > 1):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"Joined tables would have two columns {name!r}: rename the first table's.",
        )
    return parts

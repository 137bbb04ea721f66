"""Tables joined by record: a row for each record, sorted, in a file of its own.

One worker joins, in its memory. What the tables say twice or differently, and records that one of
them lacks, are counted and left out; the audit's `max_bad_records` decides whether that may be.
"""

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from workers.exceptions import NotEvaluableError, Reason, too_late
from workers.executors import DeadlinePassedError
from workers.labels.columns import Batch, check_columns
from workers.labels.parquet import Footer, read_footer, read_row_group
from workers.labels.shards import BadRecords
from workers.lake import limits
from workers.lake.layout import Lake, patiently
from workers.memory import memory_left
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.day_tables import days_of, known_by
from workers.sources.tables.table_files import TableDay

_FILE = "joined.parquet"
_RECORD = "privaudit: record"
"""Column of a record's name, beside those that are asked for."""
_TEXT = {"string", "large_string", "string_view"}
_BATCH_ROWS, _GROUP_ROWS = 1 << 18, 1 << 20


@dataclass(frozen=True, slots=True)
class JoinPart:
    """One table of a join.

    Attributes:
        found: its files.
        record: column by which it is joined.
        day: column of the day.
        columns: those that are asked for, and what they are called afterwards.
        kinds: of all columns that are read, as the table's first file has them.
    """

    found: TableDay
    record: str
    day: str
    columns: Mapping[str, str]
    kinds: pa.Schema


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
    also: Collection[str],
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
    parts = tuple(_part(tables, role, each, also) for role, each in found.items())
    times = Counter([_RECORD, *(new for part in parts for new in part.columns.values())])
    for name in (name for name, count in times.items() if count > 1):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"Joined tables would have two columns {name!r}: rename the first table's.",
        )
    scratch_folder = joining.scratch_folder()
    try:
        left_out = joining.executor.fold(
            _join, scratch_folder, [Join(tables, day, parts)], deadline=joining.deadline
        )
    except DeadlinePassedError:
        before = (
            "the tables were joined: begin earlier, or join them before the audit, into one table"
        )
        raise too_late(joining.deadline, before) from None
    assert left_out is not None  # noqa: S101  # of one item
    return scratch_folder, (_FILE,), left_out


def _part(tables: ScoreTables, role: str, found: TableDay, also: Collection[str]) -> JoinPart:
    """Return a table of the join, of which all footers were read."""
    record, day = tables.keys_of(role)
    columns = {
        name: f"{role}: {name}" if role and name != tables.known_at else name
        for name in tables.read_of(role, also)
    }
    asked = (day,) if found.day_in_files else ()
    needed = tuple(dict.fromkeys((record, *columns, *asked)))
    footers = [read_footer(found.root, file.name, needed, listed=file) for file in found.files]
    some = {name for name in tables.context if any(name in each.names for each in footers)}
    named = [(name, "scores in the settings") for name in needed if name not in some]
    for file, footer in zip(found.files, footers, strict=True):
        check_columns(footer.names, f"{file.name} of {found.name}", named)
    kinds = pa.schema([(name, _kind(footers, name)) for name in needed])
    return JoinPart(found, record, day, columns, kinds)


def _kind(footers: Iterable[Footer], name: str) -> pa.DataType:
    """Return a column's kind in the first file that holds a value; what is encoded, decoded."""
    kinds = (footer.schema().field(name).type for footer in footers if name in footer.names)
    kind = next((each for each in kinds if not pa.types.is_null(each)), pa.null())
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _join(scratch_folder: Lake, join: Join) -> tuple[None, BadRecords]:
    """Join the rows, write them, and return which records are bad."""
    kind = _compared_as(join.parts)
    # Rows that are joined take four times their bytes at most (docs/evidence/performance.md).
    room = min(limits.JOIN_BYTES, (memory_left() or 1 << 63) // 4)
    bad = BadRecords.none()
    whole = records = pl.DataFrame()
    for part in join.parts:
        first, name = part is join.parts[0], part.found.name
        frame = _rows_of_day(part, join, room)
        room -= int(frame.estimated_size())
        if first:
            told = f"have no value in {part.record!r}, scores.record: name every record."
            nameless = frame[_RECORD].null_count()
            bad += _bad(part, nameless, Reason.RECORD_UNJOINED, f"rows of {name} {told}")
            frame = frame.drop_nulls(_RECORD)
        frame = frame if kind is None else frame.with_columns(pl.col(_RECORD).cast(kind))
        rows, differing = _one_each(part, frame, join.tables)
        del frame
        if first:
            whole, records = rows, rows.select(_RECORD)
        bad += _bad(
            part,
            records.join(differing, on=_RECORD, how="semi").height,
            Reason.RECORD_REPEATED,
            f"records of {name} are there twice, with different values: keep one row for each, or "
            "name scores.known_at if labels were corrected.",
        )
        bad += _bad(
            part,
            records.join(rows, on=_RECORD, how="anti").height,
            Reason.RECORD_UNJOINED,
            f"records have no row in {name}: see that {part.record!r} names the same records in "
            "all tables, and that its rows of the day are complete.",
        )
        whole = whole.join(differing, on=_RECORD, how="anti")
        whole = whole if first else whole.join(rows, on=_RECORD, how="inner")
    names = dict.fromkeys(new for part in join.parts for new in part.columns.values())
    _write(whole.sort(_RECORD).select(*names), scratch_folder)
    return None, bad


def _bad(part: JoinPart, records: int, reason: Reason, told: str) -> BadRecords:
    if not records:
        return BadRecords.none()
    return BadRecords.at((part.found.root.uri, 0, 0), records, reason, f"{records:,} {told}")


def _rows_of_day(part: JoinPart, join: Join, room: int) -> pl.DataFrame:
    """Return a table's rows of the day.

    Of labels that came one after the other, those that training could know; in `room` bytes.
    """
    root, columns = part.found.root, part.kinds.names
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


def _one_each(
    part: JoinPart, frame: pl.DataFrame, tables: ScoreTables
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one of each record's rows, and the records whose rows differ.

    Of labels that came one after the other it is the last, and none differ.
    """
    again = frame[_RECORD].is_duplicated()
    none = frame.select(_RECORD).clear()
    if not again.any():
        return frame, none
    once, several = frame.filter(~again), frame.filter(again).unique()
    if tables.known_at is None or tables.known_at not in part.columns:
        last = several.unique(_RECORD)
        none = several.filter(several[_RECORD].is_duplicated()).select(_RECORD).unique()
    else:
        # Where two came at one time their content decides, and no order of rows.
        order = (_RECORD, tables.known_at, pl.struct(pl.all()).hash())
        last = several.sort(*order).unique(_RECORD, keep="last", maintain_order=True)
    return pl.concat([once, last]), none


def _compared_as(parts: tuple[JoinPart, ...]) -> type[pl.DataType] | None:
    """Return as what records' names are compared; None where all tables store them as one kind."""
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
        with scratch_folder.create(_FILE) as stream:
            pq.write_table(table, stream, row_group_size=_GROUP_ROWS, **plain)

    patiently(write, _FILE)

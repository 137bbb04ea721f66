"""Tables joined by record: a row for each record, sorted, in a file of its own.

One worker joins. DuckDB groups, joins and sorts in bounded memory and spills the rest to the
worker's disk. What the tables say twice or differently, and records that one of them lacks, are
counted and left out; the audit's `max_bad_records` decides whether that may be.
"""

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from workers.exceptions import NotEvaluableError, Reason
from workers.executors import DeadlinePassedError
from workers.labels.bad_records import BadRecords
from workers.labels.parquet import Footer, read_footer
from workers.lake.layout import LabelFile, Lake
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.join_context import JoinContext
from workers.sources.scores.join_parts import (
    CORRECTED,
    DIFFER,
    RECORD,
    ROWS,
    Join,
    JoinPart,
    check_names,
    of,
    quoted,
)
from workers.sources.scores.join_streams import database, table_rows
from workers.sources.scores.score_tables import EarlierTable, ScoreTables
from workers.sources.tables.table_files import TableDay

_MANY = 0.1
"""Share of the first table's records from which on others, or corrected ones, are remarked on."""
_FILE = "joined.parquet"


def flattened(tables: ScoreTables) -> ScoreTables:
    """Return what the joined table's columns mean: those of other tables say whose they are."""
    changes = {
        role: tuple(f"{role}: {name}" for name in tables.columns_of(role))
        if len(tables.columns_of(role)) > 1
        else f"{role}: {tables.columns_of(role)[0]}"
        for role in tables.others
    }
    return tables.with_parts(changes)


def join(
    tables: ScoreTables,
    found: Mapping[str, TableDay],
    day: dt.date,
    *,
    also: Iterable[str],
    joining: JoinContext,
) -> tuple[Lake, tuple[str, ...], BadRecords, tuple[Remark, ...]]:
    """Write the day's records, one row each and sorted, to a file that all workers reach.

    Returns:
        Where the file lies, what it is called, and what was left out: records that a table gives
        twice with different values, and records of the first table that another table lacks. Where
        labels say when they were known (`known_at`), the latest that training could know counts,
        and others are no mistake. Last, remarks, where records are many that the first table lacks,
        or that have no day in it, or whose label was corrected.

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
        counted = joining.fold(_join, scratch_folder, [Join(tables, day, parts)])
    except DeadlinePassedError:
        raise NotEvaluableError(
            Reason.DEADLINE,
            f"The deadline, {joining.deadline:%Y-%m-%d %H:%M:%S %Z}, passed before the tables were "
            "joined: begin earlier, or join them before the audit, into one table.",
        ) from None
    return scratch_folder, (_FILE,), _left_out(parts, counted), _remarks(parts, counted)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of a join.

    Attributes:
        records: of the first table.
        nameless: its rows without a record.
        unplaced: its rows that are of no day, or whose label has no known time.
        repeated: by table, its records that are there twice.
        lacking: by table, records of the first table that it lacks.
        beyond: by table, its records that the first table lacks.
        corrected: by table, its records whose label became another one.
    """

    records: int
    nameless: int
    unplaced: int
    repeated: tuple[int, ...]
    lacking: tuple[int, ...]
    beyond: tuple[int, ...]
    corrected: tuple[int, ...]


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
    part.found.check_has(part.needed)
    return pa.schema([(name, _kind(footers, name)) for name in part.needed])


def _kind(footers: Sequence[Footer], name: str) -> pa.DataType:
    """Return a column's kind in the first file that holds a value of it."""
    kinds = (footer.schema().field(name).type for footer in footers if name in footer.names)
    kind = next((each for each in kinds if not pa.types.is_null(each)), pa.null())
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _join(scratch_folder: Lake, join: Join) -> tuple[None, _Counts]:
    """Join the rows, write them, and return how many records are bad."""
    first = join.parts[0]
    with database() as rows:
        unplaced = []
        for part in join.parts:
            stream = table_rows(part, known_at=join.tables.known_at)
            rows.run(join.one_each(part, join.rows(part, "stream")), stream)
            unplaced.append(stream.unplaced)
        nameless = f"coalesce(sum({quoted(ROWS)}) FILTER (WHERE {quoted(RECORD)} IS NULL), 0)"
        counts = [f"(SELECT count(*) FROM {quoted(first.name)})"]  # noqa: S608
        counts += [f"(SELECT {nameless} FROM {quoted(first.name)})"]  # noqa: S608
        named = f"{of(first, RECORD)} IS NOT NULL"
        kinds = [of(part, DIFFER) for part in join.parts]
        kinds += [f"{of(part, RECORD)} IS NULL" for part in join.parts]
        counts += [f"count(*) FILTER (WHERE {kind} AND {named})" for kind in kinds]
        counts += (
            ["0"]
            + [
                f"(SELECT count(*) FROM {quoted(part.name)} ANTI JOIN {quoted(first.name)} "  # noqa: S608
                f"ON {of(part, RECORD)} = {of(first, RECORD)})"
                for part in join.parts[1:]
            ]
        )
        counts += [f"count(*) FILTER (WHERE {of(part, CORRECTED)})" for part in join.parts]
        ((records, all_nameless, *each),) = rows.run(
            f"SELECT {', '.join(counts)} FROM {join.joined}"  # noqa: S608
        )
        rows.write(join.whole, scratch_folder, _FILE)
    many = len(join.parts)
    by_kind = [tuple(each[place : place + many]) for place in range(0, len(each), many)]
    return None, _Counts(int(records), int(all_nameless), unplaced[0], *by_kind)


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
    for part, repeated, lacking in zip(parts, counts.repeated, counts.lacking, strict=True):
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


def _remarks(parts: tuple[JoinPart, ...], counts: _Counts) -> tuple[Remark, ...]:
    """Return that records did not play that the label's or the target's table has; or corrections.

    Who writes the first table could leave out rows that the model remembers, and who writes labels
    could correct these after training. A table of labels may also serve several models.
    """
    told: list[Remark] = []
    if counts.unplaced > _MANY * counts.records:
        told += remarked(
            RemarkKind.ROWS_LEFT_OUT,
            f"{counts.unplaced:,} rows of {parts[0].found.name} are of no day, or have no time at "
            "which their label was known, and did not play: if training saw them, nothing is known "
            "of their labels.",
        )
    for part, beyond, corrected in zip(parts, counts.beyond, counts.corrected, strict=True):
        if part.name in {"label", "target"} and beyond > _MANY * counts.records:
            told += remarked(
                RemarkKind.ROWS_LEFT_OUT,
                f"{beyond:,} records of the day in {part.found.name} are not in "
                f"{parts[0].found.name}, and did not play: if training saw them, nothing is known "
                "of their labels.",
            )
        if corrected > _MANY * counts.records:
            told += remarked(
                RemarkKind.OTHER_VERSION,
                f"{corrected:,} records of {part.found.name} had another label before the one that "
                "played (scores.known_at): if training saw that one, nothing is known of it.",
            )
    return tuple(told)


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
        before = other.days_before if isinstance(other, EarlierTable) else 0
        parts.append(JoinPart(role, found[role], *names, columns, days_before=before))
    check_names(parts)
    return parts

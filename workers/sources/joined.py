"""Tables joined by record, out of core: a row for each record, sorted, in a file of this machine.

DuckDB groups, joins and sorts in bounded memory and spills the rest beside the file. What the
tables say twice or differently, and records that one of them lacks, are counted and left out; the
audit's `max_bad_records` decides whether that may be.
"""

import datetime as dt
import pathlib
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.bad_records import BadRecords
from workers.labels.parquet import read_footer
from workers.sources.score_tables import ScoreTables
from workers.sources.table_files import TableDay

if TYPE_CHECKING:
    import duckdb

FILE = "joined.parquet"
_MEMORY = "2GB"
_ROWS = 1 << 20
_RECORD = "record"
_TEXT = {"string", "large_string", "string_view"}


@dataclass(frozen=True, slots=True)
class _Part:
    """One table of the join: which of its columns are asked for, and what they are called after."""

    name: str
    found: TableDay
    record: str
    day: str
    columns: Mapping[str, str]


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
    into: pathlib.Path,
) -> BadRecords:
    """Write the day's records, one row each and sorted, to `into`/joined.parquet.

    Args:
        tables: what the columns mean.
        found: the tables' files, by role; the first table's role is empty.
        day: whose rows are read.
        also: columns of the first table that the plan needs: slices, the privacy unit.
        into: an empty folder of this machine.

    Returns:
        What was left out: records that a table gives twice with different values, and records of
        the first table that another table lacks. Where labels say when they were known
        (`known_at`), the latest that training could know counts, and others are no mistake.

    Raises:
        NotEvaluableError: a column is missing, or a file is damaged.
        TransientError: storage kept failing.
    """
    # Only where tables are joined: in a process that Ray ends, it complains of what was not freed.
    import duckdb  # noqa: PLC0415

    parts = _parts(tables, found, also)
    with duckdb.connect() as database:
        database.execute(f"SET memory_limit = '{_MEMORY}'").fetchall()
        database.execute(f"SET temp_directory = '{into / 'spill'}'").fetchall()
        for part in parts:
            _check(part)
        rows = [_dataset(part) for part in parts]
        kind = _record_kind(parts, [each.schema for each in rows])
        for part, each in zip(parts, rows, strict=True):
            database.register(f"all {part.name}", each)
            database.execute(_one_each(part, each.schema, day, tables, kind)).fetchall()
        left_out = _count(database, parts)
        names = dict.fromkeys(name for part in parts for name in part.columns.values())
        reader = database.sql(
            f"SELECT {', '.join(map(_quoted, names))} FROM {_joined(parts)} "  # noqa: S608
            f"WHERE {_quoted(parts[0].name)}.{_RECORD} IS NOT NULL AND NOT ({_left_out(parts)}) "
            f"ORDER BY {_quoted(parts[0].name)}.{_RECORD}"
        ).to_arrow_reader(_ROWS)
        _write(reader, into / FILE)
    return left_out


def _parts(tables: ScoreTables, found: Mapping[str, TableDay], also: Iterable[str]) -> list[_Part]:
    rule, known = tables.holdout_rule.column, tables.known_at
    mine = [rule, *also]
    others = tables.others
    for role in ("label", "target", "proxy"):
        mine += [] if role in others else tables.columns_of(role)
    if known is not None and "label" not in others:
        mine.append(known)
    record = str(tables.record)
    parts = [_Part("first", found[""], record, tables.day, {name: name for name in mine})]
    for role, other in others.items():
        columns = {name: f"{role}: {name}" for name in tables.columns_of(role)}
        if role == "label" and known is not None:
            columns[known] = known
        parts.append(
            _Part(role, found[role], other.record or record, other.day or tables.day, columns)
        )
    return parts


def _check(part: _Part) -> None:
    """Read every footer where it may crash, and see that each file has the columns."""
    needed = [part.record, *part.columns, *([part.day] if part.found.day_in_files else [])]
    for file in part.found.files:
        footer = read_footer(part.found.root, file.name, needed, listed=file)
        missing = [name for name in needed if name not in footer.names]
        if missing:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{file.name} of {part.found.root.uri} has no column {missing[0]!r}: correct "
                f"scores in the settings; it has {', '.join(footer.names[:20])}.",
            )


def _dataset(part: _Part) -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415  # brings pandas along

    files = part.found.root.files
    return ds.dataset([file.name for file in part.found.files], filesystem=files, format="parquet")


def _record_kind(parts: list[_Part], schemas: list[pa.Schema]) -> str | None:
    """Return the SQL type in which records of all tables compare; None where it is theirs."""
    kinds = [schema.field(part.record).type for part, schema in zip(parts, schemas, strict=True)]
    for part, kind in zip(parts, kinds, strict=True):
        if not (pa.types.is_integer(kind) or _is_text(kind)):
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{part.found.root.uri} stores {part.record!r}, scores.record, as {kind}: store "
                "text or an integer, as the other tables do.",
            )
    return "VARCHAR" if any(map(_is_text, kinds)) and not all(map(_is_text, kinds)) else None


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in _TEXT or pa.types.is_dictionary(kind)


def _one_each(
    part: _Part, kinds: pa.Schema, day: dt.date, tables: ScoreTables, as_kind: str | None
) -> str:
    """Return SQL that makes one row of each record, and says whether its rows differed.

    Rows without a record's name are one row more, of the first table.
    """
    record = _quoted(part.record)
    record = record if as_kind is None else f"CAST({record} AS {as_kind})"
    where = [f"({part.name == 'first'} OR {record} IS NOT NULL)"]
    if part.found.day_in_files:
        where.append(_of_day(part.day, kinds.field(part.day).type, day, tables.time_zone))
    content = f"hash({', '.join(_quoted(name) for name in part.columns)})"
    values = {name: f"any_value({_quoted(name)})" for name in part.columns}
    differ = f"min({content}) <> max({content})"
    known = tables.known_at
    if known is not None and known in part.columns:
        # Of labels that came one after the other, the last that training could know.
        cutoff = _moment(kinds.field(known).type, tables.cutoff(day), tables.time_zone)
        where.append(f"{_quoted(known)} <= {cutoff}")
        last = f"{{'at': {_quoted(known)}, 'content': {content}}}"
        # Wrapped, as a label that was withdrawn is the last, too: arg_max passes over null.
        values = {name: f"(arg_max({{'v': {_quoted(name)}}}, {last})).v" for name in part.columns}
        differ = "false"
    chosen = "".join(f", {values[name]} AS {_quoted(new)}" for name, new in part.columns.items())
    return (
        f"CREATE TEMP TABLE {_quoted(part.name)} AS SELECT {record} AS {_RECORD}{chosen}, "  # noqa: S608
        f"{differ} AS differ, count(*) AS rows FROM {_quoted(f'all {part.name}')} "
        f"WHERE {' AND '.join(where)} GROUP BY {record}"
    )


def _joined(parts: list[_Part]) -> str:
    first = _quoted(parts[0].name)
    return first + "".join(
        f" LEFT JOIN {_quoted(part.name)} ON {_quoted(part.name)}.{_RECORD} = {first}.{_RECORD}"
        for part in parts[1:]
    )


def _count(database: "duckdb.DuckDBPyConnection", parts: list[_Part]) -> BadRecords:
    """Count records that a table gives differently, and records that a table lacks."""
    named = f"{_quoted(parts[0].name)}.{_RECORD} IS NOT NULL"
    kinds = [f"count(*) FILTER (WHERE {_quoted(part.name)}.differ AND {named})" for part in parts]
    kinds += [
        f"count(*) FILTER (WHERE {_quoted(part.name)}.{_RECORD} IS NULL AND {named})"
        for part in parts
    ]
    counted = database.execute(f"SELECT {', '.join(kinds)} FROM {_joined(parts)}").fetchall()[0]  # noqa: S608
    bad = _nameless(database, parts[0])
    for part, repeated, lacking in zip(
        parts, counted[: len(parts)], counted[len(parts) :], strict=True
    ):
        place = (part.found.root.uri, 0, 0)
        if repeated:
            bad += BadRecords.at(
                place,
                repeated,
                Reason.RECORD_REPEATED,
                f"{repeated:,} records of {part.found.root.uri} are there twice, with different "
                "values: keep one row for each, or name scores.known_at if labels were corrected.",
            )
        if lacking:
            bad += BadRecords.at(
                place,
                lacking,
                Reason.RECORD_UNJOINED,
                f"{lacking:,} records have no row in {part.found.root.uri}: see that "
                f"{part.record!r} names the same records in all tables, and that its rows of the "
                "day are complete.",
            )
    return bad


def _nameless(database: "duckdb.DuckDBPyConnection", first: _Part) -> BadRecords:
    """Count rows of the first table that name no record."""
    query = f"SELECT coalesce(sum(rows), 0) FROM {_quoted(first.name)} WHERE {_RECORD} IS NULL"  # noqa: S608
    rows = int(database.execute(query).fetchall()[0][0])
    if not rows:
        return BadRecords.none()
    return BadRecords.at(
        (first.found.root.uri, 0, 0),
        rows,
        Reason.RECORD_UNJOINED,
        f"{rows:,} rows of {first.found.root.uri} have no value in {first.record!r}, "
        "scores.record: name every record.",
    )


def _left_out(parts: list[_Part]) -> str:
    differ = [f"coalesce({_quoted(part.name)}.differ, false)" for part in parts]
    lacking = [f"{_quoted(part.name)}.{_RECORD} IS NULL" for part in parts[1:]]
    return " OR ".join(differ + lacking)


def _write(reader: pa.RecordBatchReader, path: pathlib.Path) -> None:
    # Plain pages: their bytes, which are digested, depend on the rows alone.
    with pq.ParquetWriter(
        path, reader.schema, compression="none", use_dictionary=False, write_statistics=False
    ) as writer:
        for batch in reader:
            writer.write_batch(batch, row_group_size=_ROWS)


def _of_day(name: str, kind: pa.DataType, day: dt.date, zone: str) -> str:
    """Return the condition that a row is of the day."""
    column = _quoted(name)
    if pa.types.is_date(kind):
        return f"{column} = DATE '{day}'"
    if pa.types.is_timestamp(kind):
        start = dt.datetime.combine(day, dt.time(), tzinfo=zoneinfo.ZoneInfo(zone))
        end = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=start.tzinfo)
        first, last = (_moment(kind, moment, zone) for moment in (start, end))
        return f"{column} >= {first} AND {column} < {last}"
    if pa.types.is_integer(kind):
        return f"{column} = {day:%Y%m%d}"
    if _is_text(kind):
        return f"{column} IN ('{day}', '{day:%Y%m%d}')"
    raise NotEvaluableError(
        Reason.LABEL_INVALID,
        f"{name!r}, scores.day, is stored as {kind}: store a date, a time, or text like "
        "2026-03-02.",
    )


def _moment(kind: pa.DataType, moment: dt.datetime, zone: str) -> str:
    """Return a moment as SQL that compares with a column of times; one without zone is `zone`'s."""
    if not pa.types.is_timestamp(kind):
        raise NotEvaluableError(
            Reason.LABEL_INVALID, f"scores.known_at is stored as {kind}: store it as a time."
        )
    if kind.tz is None:
        return f"TIMESTAMP '{moment.astimezone(zoneinfo.ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}'"
    return f"TIMESTAMPTZ '{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}+00'"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'

"""Commit audits: all records of a batch with one write per table, the rows in `audits` last.

A record is there when, and only when, its row in `audits` is. A commit that was cut off between two
tables therefore left no record, and the next commit of the same audit completes it.
"""

import contextlib
import datetime as dt
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from pyarrow import compute as pc

from privcore.exceptions import TerminalError, is_failure
from workers.plain_text import plain_text
from workers.remark import same_but_for_doubts
from workers.warehouse.delta import check_plain, data_files, rewriting
from workers.warehouse.later_rows import ConfirmationRow
from workers.warehouse.log_size import check_log
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS, TABLES, TIMES, arrow_schema

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)
_CONFIGURATION = {
    # How long a log names what was added: far longer than two writers take to meet.
    "delta.setTransactionRetentionDuration": "interval 1 days",
    # A reader that opens a table reads all commits since the last checkpoint.
    "delta.checkpointInterval": "10",
}
_AFTERWARDS = deltalake.PostCommitHookProperties(
    # To look for expired logs lists all of the log; compaction does that, and no commit need.
    create_checkpoint=True,
    cleanup_expired_logs=False,
)
_WEALTH = "audit_wealth"
"""Written first: its rows have a day, so a commit that was cut off is found without reading all."""
WRITTEN = (_WEALTH, *(table for table in PARTS if table != _WEALTH), "audits")
"""The tables of a record: a commit writes the first one first and the last one last."""


class Stored(Protocol):
    """The tables that are read and written here: a `Warehouse`."""

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table with every column of today."""

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return what a query over scanned tables finds."""

    def path(self, table: str) -> str:
        """Return where a table lies."""

    def retry(self, table: str, change: Callable[[], Answer]) -> Answer:
        """Return what `change` of a table returns, again and again while other writers win."""


def commit_all(stored: Stored, records: Sequence[AuditRecord]) -> tuple[bool | TerminalError, ...]:
    """Commit a batch of audits.

    What is committed carries its digest. An audit that is there already leaves a confirmation. A
    record that no table can hold does not keep the others from being committed.

    Returns:
        Of each record whether it was new, or why it cannot be stored.
    """
    if not records:
        return ()
    outcomes: list[bool | TerminalError] = [False] * len(records)
    before = Snapshots(stored, [table for table in WRITTEN if _has_rows(table, records)])
    committed, revisions = _look_up(stored, [record.audit for record in records])
    new: dict[str, tuple[int, AuditRecord]] = {}
    again: list[ConfirmationRow] = []
    now = dt.datetime.now(dt.UTC)
    for place, record in enumerate(records):
        audit, numbers = record.audit, revisions[record.audit.model, record.audit.day]
        revision = 1 + max(len(numbers), *numbers, 0)
        stands = committed.get(audit.audit_id)
        if stands is not None and not same_but_for_doubts(stands, audit.verdict):
            outcomes[place] = _other_stands(audit, stands)
            continue
        if stands is not None or audit.audit_id in new:
            at = now + dt.timedelta(microseconds=len(again))  # no two have the same key
            again.append(ConfirmationRow(**shared(audit), confirmed_at=at, revision=revision))
        else:
            try:
                new[audit.audit_id] = place, _numbered(record, revision)
            except BaseException as error:
                if not is_failure(error):
                    raise
                outcomes[place] = _cannot_be_stored(audit, error)
                continue
        numbers.append(revision)
    tables, refused = _as_tables([record for _, record in new.values()])
    inserted = _insert_all(stored, tables, before)
    for audit_id, (place, _) in new.items():
        outcomes[place] = refused.get(audit_id, audit_id in inserted)
    kept = [row for row in again if row.audit_id not in refused]
    insert_rows(stored, "audit_confirmations", kept)
    return tuple(outcomes)


def insert_rows(stored: Stored, table: str, rows: Sequence[TableRow]) -> frozenset[str]:
    """Add rows that are no part of a record; return the audits of those that were added here."""
    if not rows:
        return frozenset()
    at_once = TABLES[table].keys == ("audit_id",)
    names = {
        row.audit_id if at_once else f"{row.audit_id}/{getattr(row, TIMES[table])}": row.audit_id
        for row in rows
    }
    before = Snapshots(stored, [table])
    return insert(stored, table, as_arrow(table, rows), names=names, before=before)


class Snapshots:
    """Tables, opened once; the versions that they had then. Missing ones are made."""

    def __init__(self, stored: Stored, tables: Iterable[str]) -> None:
        self._stored = stored
        self._tables = dict(_at_once(lambda table: (table, self._open(table)), tables))
        self._versions = {table: found.version() for table, found in self._tables.items()}

    def now(self, table: str) -> deltalake.DeltaTable:
        """Return a table as it is now."""
        found = self._tables[table]
        found.update_incremental()
        return found

    def added_since(self, table: str, audits: frozenset[str]) -> set[str]:
        """Return which of the audits have rows in files that `now` has and the table had not."""
        now, version = self._tables[table], self._versions[table]
        if now.version() == version:
            return set()
        path = self._stored.path(table)
        check_log(path, version)
        then = deltalake.DeltaTable(path, version=version)
        files = sorted(set(data_files(now, path)) - set(data_files(then, path)))
        if not files:
            return set()
        rows = pl.scan_parquet(files, glob=False).filter(pl.col("audit_id").is_in(list(audits)))
        return set(self._stored.collect(rows.select("audit_id").unique())["audit_id"])

    def _open(self, table: str) -> deltalake.DeltaTable:
        return made_table(self._stored, table)


def made_table(stored: Stored, table: str) -> deltalake.DeltaTable:
    """Return a table, which is made if it is missing; of two writers at once the first makes it."""
    path = stored.path(table)

    def opened() -> deltalake.DeltaTable:
        check_plain(path)
        check_log(path)
        with contextlib.suppress(TableNotFoundError):
            return deltalake.DeltaTable(path)
        schema = arrow_schema(TABLES[table].row)
        deltalake.DeltaTable.create(
            path, schema=schema, mode="ignore", configuration=_CONFIGURATION
        )
        return deltalake.DeltaTable(path)

    return stored.retry(table, opened)


def insert(
    stored: Stored,
    table: str,
    rows: pa.Table,
    *,
    names: Mapping[str, str],
    before: Snapshots,
    anew: bool = False,
) -> frozenset[str]:
    """Add all rows of some audits to a table in one commit; return the audits that were added here.

    Two writers of the same audit meet in the table's log, which keeps the names of both for a day:
    the later one's commit fails. It then finds what the first one added, puts its own rows in the
    place of those, and leaves out its row in `audits`. So each audit's rows are there once.

    Args:
        stored: the warehouse.
        table: its name.
        rows: all that the table is to hold of the audits.
        names: what the log keeps, and the audit that each name is of.
        before: the tables as they were before the caller looked for rows of the audits.
        anew: whether the caller found rows of them, of a commit that was cut off.
    """
    audits = frozenset(names.values())

    def write() -> frozenset[str]:
        now = before.now(table)
        known = before.added_since(table, audits)
        left = audits - known if table in TIMES else audits
        if not left:
            return left
        at = int(time.time() * 1000)
        once = [deltalake.Transaction(name, 1, at) for name, one in names.items() if one in left]
        instead: dict[str, Any] = {
            "mode": "append",
            "commit_properties": deltalake.CommitProperties(app_transactions=once),
        }
        if table not in TIMES and (known or anew):
            instead = {
                "mode": "overwrite",
                "predicate": _one_of(audits),
                "commit_properties": rewriting(*once),
            }
        ours = rows.filter(pc.is_in(rows["audit_id"], pa.array(sorted(left))))
        deltalake.write_deltalake(
            now,
            ours,
            schema_mode="merge",
            post_commithook_properties=_AFTERWARDS,
            **instead,
        )
        return left

    return stored.retry(table, write)


def shared(audit: AuditRow) -> dict[str, Any]:
    """Return what a row about an audit carries of it."""
    return {name: getattr(audit, name) for name in TableRow.model_fields}


def _look_up(
    stored: Stored, audits: Sequence[AuditRow]
) -> tuple[dict[str, str], dict[tuple[str, dt.date], list[int]]]:
    """Return the verdicts of the models' and days' audits by id, and the numbers of all commits.

    An audit has one model and day: its id is a digest of them, too.
    """
    days, models = {audit.day for audit in audits}, {audit.model for audit in audits}
    found = stored.collect(
        stored.scan("audits")
        .filter(pl.col("day").is_in(list(days)) & pl.col("model").is_in(list(models)))
        .select("audit_id", "model", "day", "revision", "verdict")
    )
    again = stored.collect(
        stored.scan("audit_confirmations")
        .filter(pl.col("audit_id").is_in(found["audit_id"].implode()))
        .select("audit_id", "revision")
    )
    of = {row[0]: (row[1], row[2]) for row in found.iter_rows()}
    revisions: dict[tuple[str, dt.date], list[int]] = {
        (audit.model, audit.day): [] for audit in audits
    }
    numbers = [*found.select("audit_id", "revision").iter_rows(), *again.iter_rows()]
    for audit_id, revision in numbers:
        # A row that no audit wrote may have no number, and keeps no record from being committed.
        revisions.setdefault(of[audit_id], []).append(revision or 0)
    return dict(found.select("audit_id", pl.col("verdict").fill_null("")).iter_rows()), revisions


def _has_rows(table: str, records: Sequence[AuditRecord]) -> bool:
    return table == "audits" or any(getattr(record, PARTS[table]) for record in records)


def _numbered(record: AuditRecord, revision: int) -> AuditRecord:
    """Return a record with its number and its digest."""
    numbered = record.audit.model_copy(update={"revision": revision})
    return seal(record.model_copy(update={"audit": numbered}))


def _as_tables(
    records: Sequence[AuditRecord],
) -> tuple[dict[str, pa.Table], dict[str, TerminalError]]:
    """Return what each table is to hold of a batch, and of each record left out why it is."""
    try:
        return _tables_of(records), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if len(records) == 1:
            (audit,) = (record.audit for record in records)
            return {}, {audit.audit_id: _cannot_be_stored(audit, error)}
    refused: dict[str, TerminalError] = {}
    for record in records:
        refused |= _as_tables([record])[1]
    return _tables_of([one for one in records if one.audit.audit_id not in refused]), refused


def _tables_of(records: Sequence[AuditRecord]) -> dict[str, pa.Table]:
    rows: dict[str, list[TableRow]] = {
        table: [row for record in records for row in getattr(record, part)]
        for table, part in PARTS.items()
    }
    rows["audits"] = [record.audit for record in records]
    return {table: as_arrow(table, rows[table]) for table in WRITTEN if rows[table]}


def _cannot_be_stored(audit: AuditRow, error: BaseException) -> TerminalError:
    """Return the error of a record; its cause may quote values, and is for the log alone."""
    _log.error("The record of %s for %s is refused.", audit.model, audit.day, exc_info=error)
    return TerminalError(
        f"The record of {audit.model} for {audit.day} cannot be stored ({type(error).__name__}): a "
        "column does not take one of its values."
    )


def _other_stands(audit: AuditRow, stands: str) -> TerminalError:
    """Return the error of a record whose place another one has, with another verdict.

    The same inputs, plan and method give the same verdict, so one of the two was not computed: the
    identifier can be known before the night.
    """
    return TerminalError(
        f"The audit of {audit.model} for {audit.day} came to {audit.verdict}, but the warehouse "
        f"has a record of that audit already, {audit.audit_id[:8]}, which says "
        f"{plain_text(stands) or 'nothing'}. Run privaudit verify {audit.audit_id[:8]}. Then find "
        "who wrote that record, and bring back the warehouse as it was before."
    )


def _insert_all(
    stored: Stored, tables: Mapping[str, pa.Table], before: Snapshots
) -> frozenset[str]:
    """Write a batch; return the audits whose row in `audits` was added here.

    The tables between the first and the last are written at once: on an object store a write is
    some twenty requests, one after the other.
    """
    anew = _any_begun(stored, tables)

    def put(table: str) -> frozenset[str]:
        rows = tables[table]
        names = {audit_id: audit_id for audit_id in rows["audit_id"].unique().to_pylist()}
        return insert(stored, table, rows, names=names, before=before, anew=anew)

    if _WEALTH in tables:
        put(_WEALTH)
    list(_at_once(put, [table for table in tables if table not in {_WEALTH, "audits"}]))
    return put("audits") if "audits" in tables else frozenset()


def _at_once(function: Callable[[str], Answer], tables: Iterable[str]) -> Iterator[Answer]:
    """Yield what a function returns of each table, in their order; nothing is left under way."""
    with ThreadPoolExecutor(len(WRITTEN)) as pool:
        yield from pool.map(function, tables)


def _any_begun(stored: Stored, tables: Mapping[str, pa.Table]) -> bool:
    """Return whether a commit of one of the audits was cut off: the first table has its rows."""
    unseen = set(tables["audits"]["audit_id"].to_pylist()) if tables else set()
    days = tables["audits"]["day"].unique().to_pylist() if tables else []
    for table, rows in tables.items():
        of = unseen & set(rows["audit_id"].to_pylist())
        unseen -= of
        if not of or table == "audits":
            continue
        there = stored.scan(table).filter(pl.col("audit_id").is_in(list(of)))
        if "day" in TABLES[table].row.model_fields:
            there = there.filter(pl.col("day").is_in(days))
        if stored.collect(there.select(pl.len())).item():
            return True
    return False


def as_arrow(table: str, rows: Sequence[TableRow]) -> pa.Table:
    """Return rows as a table; without descriptions, since Delta refuses one that has changed."""
    schema = arrow_schema(TABLES[table].row)
    bare = pa.schema(field.remove_metadata() for field in schema)
    values = [row.__dict__ for row in rows]
    columns = [pa.array([each[field.name] for each in values], type=field.type) for field in bare]
    return pa.Table.from_arrays(columns, schema=bare)


def _one_of(audits: Iterable[str]) -> str:
    quoted = ", ".join("'" + audit_id.replace("'", "''") + "'" for audit_id in sorted(audits))
    return f"audit_id in ({quoted})"

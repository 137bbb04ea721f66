"""The stored tables: read with every column of today, and added to.

A batch of audits is committed with one write, so that its records are there whole or not at all.
"""

import contextlib
import datetime as dt
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from pyarrow import compute as pc

from privcore.exceptions import TerminalError
from workers.warehouse.delta import open_table, readable, retry_commits, table_path, whole
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, AuditRow, NoteKind, NoteRow
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import (
    PARTS,
    TABLES,
    TIMES,
    columns_of_audit,
    stored_schema,
    stored_without_rows,
)

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


@dataclass(frozen=True, slots=True)
class StoredTables:
    """The warehouse's tables at a path or an object-store URI: read, and added to.

    Attributes:
        uri: where they lie.
        as_of: read what was known then, by each row's own time; now by default. Reading only.
    """

    uri: str
    as_of: dt.datetime | None = None

    def delta(self, table: str) -> deltalake.DeltaTable | None:
        """Return a table as it is stored; None where nothing was written yet."""
        return open_table(self.path(table))

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table, empty where nothing was written yet, with every column of today."""
        row, part = TABLES[table].row, TABLES[table].part
        if part is None:
            return self._scan_stored(table).select(list(row.model_fields))
        rows = self._scan_stored("audits").filter(pl.col(part).list.len() > 0)
        of_audit = columns_of_audit(row)
        own = pl.col(part).struct
        return (
            rows.select(*of_audit, part)
            .explode(part)
            .select(*(name if name in of_audit else own.field(name) for name in row.model_fields))
        )

    def notes(self, kind: NoteKind) -> pl.LazyFrame:
        """Return the notes of one kind."""
        return self.scan("audit_notes").filter(pl.col("kind") == kind)

    def _scan_stored(self, table: str) -> pl.LazyFrame:
        """Return a table as it is stored."""
        empty = stored_without_rows(table).lazy()
        stored = self.delta(table)
        if stored is None:
            return empty
        with readable(self.uri):
            rows = pl.concat([empty, pl.scan_delta(stored)], how="diagonal_relaxed")
        return rows if self.as_of is None else rows.filter(pl.col(TIMES[table]) <= self.as_of)

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return what a query over scanned tables finds."""
        return whole(self.uri, rows.collect)

    def path(self, table: str) -> str:
        """Return where a table lies."""
        return table_path(self.uri, table)

    def retry(self, table: str, change: Callable[[], Answer]) -> Answer:
        """Return what `change` of a table returns, again and again while other writers win."""
        return retry_commits(self.uri, table, change)

    def commit_all(self, records: Sequence[AuditRecord]) -> tuple[bool | TerminalError, ...]:
        """Commit many audits as `Warehouse.commit` does each, with one write.

        Returns:
            Of each record whether it was new, or why it cannot be stored: the others are committed.

        Raises:
            TerminalError: the tables cannot be written.
        """
        self.check_present()
        if not records:
            return ()
        # Opened before it is looked what there is: what others commit later meets ours in the log.
        into = self.made_table("audits")
        committed, revisions = self._look_up([record.audit for record in records])
        new: dict[str, AuditRecord] = {}
        again: list[NoteRow] = []
        now = dt.datetime.now(dt.UTC)
        for record in records:
            audit, numbers = record.audit, revisions[record.audit.model, record.audit.day]
            revision = 1 + max(len(numbers), *numbers, 0)
            numbers.append(revision)
            if audit.audit_id in committed or audit.audit_id in new:
                at = now + dt.timedelta(microseconds=len(again))  # no two have the same key
                note = NoteRow(
                    **shared(audit), kind=NoteKind.CONFIRMED, noted_at=at, revision=revision
                )
                again.append(note)
            else:
                numbered = audit.model_copy(update={"revision": revision})
                new[audit.audit_id] = seal(record.model_copy(update={"audit": numbered}))
        rows, refused = _storable(list(new.values()))
        ids = rows["audit_id"].to_pylist()
        added = self.insert("audits", rows, names=dict(zip(ids, ids, strict=True)), into=into)
        kept = [row for row in again if row.audit_id not in refused]
        self.insert_rows("audit_notes", kept)
        outcomes: list[bool | TerminalError] = []
        for audit_id in (record.audit.audit_id for record in records):
            first = new.pop(audit_id, None) is not None
            outcomes.append(refused.get(audit_id, audit_id in added) if first else False)
        return tuple(outcomes)

    def insert_rows(self, table: str, rows: Sequence[TableRow]) -> None:
        """Add rows that are no part of a record."""
        if rows:
            names = {f"{row.audit_id}/{getattr(row, TIMES[table])}": row.audit_id for row in rows}
            self.insert(table, as_arrow(table, rows), names=names, into=self.made_table(table))

    def made_table(self, table: str) -> deltalake.DeltaTable:
        """Return a table, made if it is missing; of two writers at once the first makes it."""
        path = self.path(table)

        def opened() -> deltalake.DeltaTable:
            with contextlib.suppress(TableNotFoundError):
                return deltalake.DeltaTable(path)
            deltalake.DeltaTable.create(
                path, schema=stored_schema(table), mode="ignore", configuration=_CONFIGURATION
            )
            return deltalake.DeltaTable(path)

        return self.retry(table, opened)

    def insert(
        self, table: str, rows: pa.Table, *, names: Mapping[str, str], into: deltalake.DeltaTable
    ) -> frozenset[str]:
        """Add all rows of some audits to a table in one commit; return the audits added here.

        Two writers of the same audit meet in the table's log, which keeps the names of both for a
        day: the later one's commit fails. It then finds what the first one added, and leaves those
        rows out.

        Args:
            table: its name.
            rows: all that the table is to hold of the audits.
            names: what the log keeps, and the audit that each name is of.
            into: the table as it was before the caller looked for rows of the audits.
        """
        audits, attempts = frozenset(names.values()), itertools.count()

        def write() -> frozenset[str]:
            left = audits
            if next(attempts):  # another writer won
                into.update_incremental()
                left -= self._known(table, rows)
            if not left:
                return left
            at = int(time.time() * 1000)
            once = [
                deltalake.Transaction(name, 1, at) for name, one in names.items() if one in left
            ]
            deltalake.write_deltalake(
                into,
                rows.filter(pc.is_in(rows["audit_id"], pa.array(sorted(left)))),
                mode="append",
                schema_mode="merge",
                commit_properties=deltalake.CommitProperties(app_transactions=once),
                post_commithook_properties=_AFTERWARDS,
            )
            return left

        return self.retry(table, write)

    def _known(self, table: str, rows: pa.Table) -> set[str]:
        """Return the audits some of whose rows a table has."""
        keys = list(TABLES[table].keys)
        asked = pl.DataFrame(rows.select(keys)).lazy()
        found = self.scan(table).join(asked, on=keys, how="semi").select("audit_id").unique()
        return set(self.collect(found)["audit_id"])

    def _look_up(
        self, audits: Sequence[AuditRow]
    ) -> tuple[set[str], dict[tuple[str, dt.date], list[int]]]:
        """Return the ids of the models' and days' audits, and the numbers of all commits.

        An audit has one model and day: its id is a digest of them, too.
        """
        days, models = {audit.day for audit in audits}, {audit.model for audit in audits}
        found = self.collect(
            self.scan("audits")
            .filter(pl.col("day").is_in(list(days)) & pl.col("model").is_in(list(models)))
            .select("audit_id", "model", "day", "revision")
        )
        again = self.collect(
            self.scan("audit_notes")
            .filter(pl.col("kind") == NoteKind.CONFIRMED)
            .filter(pl.col("audit_id").is_in(found["audit_id"].implode()))
            .select("audit_id", "revision")
        )
        of = {row[0]: (row[1], row[2]) for row in found.iter_rows()}
        revisions: dict[tuple[str, dt.date], list[int]] = {
            (audit.model, audit.day): [] for audit in audits
        }
        for audit_id, revision in (*found.select("audit_id", "revision").rows(), *again.rows()):
            revisions.setdefault(of[audit_id], []).append(revision or 0)
        return set(of), revisions

    def check_present(self) -> None:
        """Refuse to write to a warehouse as of a past time."""
        if self.as_of is not None:
            raise TerminalError(
                "A warehouse as of a past time is only read: commit to the present."
            )


def shared(audit: AuditRow) -> dict[str, Any]:
    """Return what a row about an audit carries of it."""
    return {name: getattr(audit, name) for name in TableRow.model_fields}


def _storable(records: Sequence[AuditRecord]) -> tuple[pa.Table, dict[str, TerminalError]]:
    """Return the rows of a batch's records, and of each that is left out why it is."""
    try:
        return as_stored(records), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if len(records) == 1:
            (audit,) = (record.audit for record in records)
            return as_stored([]), {audit.audit_id: _cannot_be_stored(audit, error)}
    refused: dict[str, TerminalError] = {}
    for record in records:
        refused |= _storable([record])[1]
    return as_stored([one for one in records if one.audit.audit_id not in refused]), refused


def _cannot_be_stored(audit: AuditRow, error: BaseException) -> TerminalError:
    """Return the error of a record; its cause may quote values, and is for the log alone."""
    _log.error("The record of %s for %s is refused.", audit.model, audit.day, exc_info=error)
    return TerminalError(
        f"The record of {audit.model} for {audit.day} cannot be stored ({type(error).__name__}): a "
        "column does not take one of its values."
    )


def as_stored(records: Sequence[AuditRecord]) -> pa.Table:
    """Return records as rows of `audits`."""
    rows = as_arrow("audits", [record.audit for record in records])
    for part in PARTS.values():
        kind = stored_schema("audits").field(part).type
        found = [[row.__dict__ for row in getattr(record, part)] for record in records]
        rows = rows.append_column(part, pa.array(found, kind))
    return rows


def as_arrow(table: str, rows: Sequence[TableRow]) -> pa.Table:
    """Return rows as a table, without parts."""
    schema = stored_schema(table)
    values = [row.__dict__ for row in rows]
    names = TABLES[table].row.model_fields
    columns = [pa.array([each[name] for each in values], schema.field(name).type) for name in names]
    return pa.Table.from_arrays(columns, list(names))

"""Keeping the tables quick and small: compaction, old files, and rows that someone asks to delete.

Every commit writes a small file. Compaction writes all rows into large ones; no row changes, and
the replaced files stay for as long as time travel by the commit log is wanted. What was known on a
past day is in the rows themselves (`recorded_at`), whatever files are left.
"""

import datetime as dt
import functools
import logging
import re
from dataclasses import dataclass

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from privcore.exceptions import AuditError, TerminalError
from workers.warehouse.delta import rewrite, rewriting, whole
from workers.warehouse.orphans import orphans, young
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

KEPT_DAYS = 30
"""Time that replaced files and commit logs are kept where nothing else is said."""

MOST_FILES = 200
"""A table with more files than this is compacted by the night that finds it so."""

_LARGE_BYTES = 100_000_000
"""A table of so many bytes is only compacted once it has more than `MOST_FILES`: each compaction
writes all of it, and the files before stay for as long as they are kept."""

_LOG_KEPT = "delta.logRetentionDuration"
_FILES_KEPT = "delta.deletedFileRetentionDuration"
_DAYS = re.compile(r"interval (\d+) days")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """Result of the compaction of one table."""

    table: str
    files_before: int
    files_after: int
    files_deleted: int


def compact(warehouse: Warehouse, *, kept_days: int = KEPT_DAYS) -> list[Compacted]:
    """Write all rows into large files, and delete files that were replaced long ago.

    Readers and writers may go on meanwhile. No row is changed or deleted.

    Args:
        warehouse: whose tables, in their order; one without rows is passed over.
        kept_days: how far back `by_log` can read afterwards.

    Raises:
        TerminalError: less than a day: files that someone is reading or writing would go.
    """
    if kept_days < 1:
        raise TerminalError(
            f"Files cannot be kept for {kept_days} days: a reader may still need them, keep them "
            "for 1 day or more."
        )
    return [
        warehouse.retry(table, functools.partial(_compact, warehouse, table, kept_days))
        for table in TABLES
        if warehouse.delta(table) is not None
    ]


def compact_crowded(warehouse: Warehouse) -> list[Compacted]:
    """Compact each table with more than `MOST_FILES` files, as `compact` does.

    Files and logs are kept for as long as the last `compact` was told. A table that another writer
    wins, or that storage does not let be compacted, is left as it is for the next night: no row
    depends on it.
    """
    done = []
    for table in TABLES:
        try:
            delta = warehouse.delta(table)
            if delta is not None and len(delta.file_uris()) > MOST_FILES:
                kept_days = _kept_days(delta)
                one = whole(warehouse.uri, functools.partial(_compact, warehouse, table, kept_days))
                done.append(one)
        except (AuditError, CommitFailedError) as error:
            _log.warning("The table %s was not compacted: %s", table, error)
    return done


def _kept_days(delta: deltalake.DeltaTable) -> int:
    """Return how long a table's replaced files are kept, as the last `compact` was told."""
    told = _DAYS.fullmatch(delta.metadata().configuration.get(_FILES_KEPT) or "")
    return KEPT_DAYS if told is None else max(1, int(told[1]))


def _compact(warehouse: Warehouse, table: str, kept_days: int) -> Compacted:
    delta = _stored(warehouse, table)
    before = len(delta.file_uris())
    kept = dict.fromkeys((_LOG_KEPT, _FILES_KEPT), f"interval {kept_days} days")
    if not kept.items() <= delta.metadata().configuration.items():
        delta.alter.set_table_properties(kept)
    if before > MOST_FILES or (before > 1 and _bytes(delta) < _LARGE_BYTES):
        rewrite(delta, rewriting())
    # Before the log is shortened, which forgets when files were replaced; and all files, since a
    # writer's own checkpoints forget it too.
    deleted = delta.vacuum(
        retention_hours=24 * kept_days, dry_run=False, enforce_retention_duration=False, full=True
    )
    delta.create_checkpoint()
    delta.cleanup_metadata()
    return Compacted(table, before, len(delta.file_uris()), len(deleted))


def _bytes(delta: deltalake.DeltaTable) -> int:
    """Return the bytes of a table's data files."""
    return int(pl.DataFrame(delta.get_add_actions(flatten=True))["size_bytes"].sum())


@dataclass(frozen=True, slots=True)
class Deleted:
    """Audits and commits that a deletion reached.

    Attributes:
        audits: audits that were deleted, whole.
        unfinished: commits that were cut off, whose rows were deleted too.
        young: such commits that may still be going on; a later deletion takes what is left of them.
    """

    audits: int
    unfinished: int
    young: int


def delete_before(warehouse: Warehouse, day: dt.date) -> Deleted:
    """Delete the audits of all days before `day`, whole.

    The one way in which rows go, and only where someone asks for it. A deletion that was cut off
    is completed by the next: an audit's row in `audits` is deleted last. The files that hold the
    rows go with compaction, once they are as old as it keeps them.

    What commits left behind that were cut off more than an hour ago goes too, unless it says itself
    that it is of `day` or later: it belongs to no record.
    """
    audits = warehouse.scan("audits").filter(pl.col("day") < day).select("audit_id")
    ids = warehouse.collect(audits)["audit_id"].to_list()
    left = {one.audit_id for one in orphans(warehouse) if one.day is None or one.day < day}
    fresh = left & young(warehouse) if left else set()
    source = pa.table({"audit_id": pa.array([*ids, *sorted(left - fresh)], pa.string())})
    if source.num_rows:
        for table in reversed(TABLES):
            if warehouse.delta(table) is not None:
                warehouse.retry(table, functools.partial(_delete, warehouse, table, source))
    return Deleted(len(ids), len(left - fresh), len(fresh))


def _stored(warehouse: Warehouse, table: str) -> deltalake.DeltaTable:
    stored = warehouse.delta(table)
    if stored is None:
        raise TerminalError(f"The table {table} went away while it was worked on.")
    return stored


def _delete(warehouse: Warehouse, table: str, ids: pa.Table) -> None:
    delta = _stored(warehouse, table)
    same = "s.audit_id = t.audit_id"
    once = rewriting()
    merge = delta.merge(
        ids, predicate=same, source_alias="s", target_alias="t", commit_properties=once
    )
    merge.when_matched_delete().execute()

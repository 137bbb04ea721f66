"""Keeping the tables quick and small: compaction, old files, and rows that someone asks to delete.

Every commit writes a small file. Compaction writes all rows into large ones; no row changes, and
the replaced files stay for as long as time travel by the commit log is wanted. What was known on a
past day is in the rows themselves (`recorded_at`), whatever files are left.
"""

import datetime as dt
import functools
import logging
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from privcore.exceptions import AuditError, TerminalError
from workers.warehouse.delta import rewrite, rewriting, whole
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import STORED

KEPT_DAYS = 30
"""Time that replaced files and commit logs are kept where nothing else is said."""

MOST_FILES = 200
"""A table with more files than this is compacted by the night that finds it so."""

_LARGE_BYTES = 100_000_000
"""A table of so many bytes is only compacted once it has more than `MOST_FILES`: each compaction
writes all of it, and the files before stay for `KEPT_DAYS`."""

_LOG_KEPT = "delta.logRetentionDuration"
_FILES_KEPT = "delta.deletedFileRetentionDuration"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """Result of the compaction of one table."""

    table: str
    files_before: int
    files_after: int
    files_deleted: int


def compact(warehouse: Warehouse, *, kept_days: int = KEPT_DAYS) -> list[Compacted]:
    """Write all rows into large files, and delete files that were replaced `kept_days` ago.

    Readers and writers may go on meanwhile. No row is changed or deleted.

    Raises:
        TerminalError: less than a day: files that someone is reading or writing would go.
    """
    if kept_days < 1:
        raise TerminalError(
            f"Files cannot be kept for {kept_days} days: a reader may still need them, keep them "
            "for 1 day or more."
        )
    done = (
        warehouse.retry(table, functools.partial(_compact, warehouse, table, kept_days))
        for table in STORED
    )
    return [one for one in done if one is not None]


def compact_crowded(warehouse: Warehouse) -> list[Compacted]:
    """Compact each table with more than `MOST_FILES` files, as `compact` does.

    A table that another writer wins, or that storage does not let be compacted, is left as it is
    for the next night: no row depends on it.
    """
    done = []
    for table in STORED:
        try:
            change = functools.partial(_compact, warehouse, table, KEPT_DAYS, MOST_FILES)
            done.append(whole(warehouse.uri, change))
        except (AuditError, CommitFailedError) as error:
            _log.warning("The table %s was not compacted: %s", table, error)
    return [one for one in done if one is not None]


def _compact(
    warehouse: Warehouse, table: str, kept_days: int, more_than: int = -1
) -> Compacted | None:
    """Compact a table; None where there is none, or it has no more files than that."""
    delta = warehouse.delta(table)
    before = 0 if delta is None else len(delta.file_uris())
    if delta is None or before <= more_than:
        return None
    kept = dict.fromkeys((_LOG_KEPT, _FILES_KEPT), f"interval {kept_days} days")
    if not kept.items() <= delta.metadata().configuration.items():
        delta.alter.set_table_properties(kept)
    size = pl.DataFrame(delta.get_add_actions(flatten=True))["size_bytes"].sum()
    if before > MOST_FILES or (before > 1 and size < _LARGE_BYTES):
        rewrite(delta, rewriting())
    # Before the log is shortened, which forgets when files were replaced; and all files, since a
    # writer's own checkpoints forget it too.
    deleted = delta.vacuum(
        retention_hours=24 * kept_days, dry_run=False, enforce_retention_duration=False, full=True
    )
    delta.create_checkpoint()
    delta.cleanup_metadata()
    return Compacted(table, before, len(delta.file_uris()), len(deleted))


def delete_before(warehouse: Warehouse, day: dt.date) -> int:
    """Delete the audits of all days before `day`, whole, and return how many.

    The one way in which rows go, and only where someone asks for it. A deletion that was cut off
    is completed by the next: an audit's row in `audits` is deleted last. The files that hold the
    rows go with compaction, once they are as old as it keeps them.
    """
    audits = warehouse.scan("audits").filter(pl.col("day") < day).select("audit_id")
    ids = warehouse.collect(audits)["audit_id"].to_list()
    source = pa.table({"audit_id": pa.array(ids, pa.string())})
    for table in reversed(STORED) if ids else ():
        warehouse.retry(table, functools.partial(_delete, warehouse, table, source))
    return len(ids)


def _delete(warehouse: Warehouse, table: str, ids: pa.Table) -> None:
    delta = warehouse.delta(table)
    if delta is None:
        return
    merge = delta.merge(
        ids,
        predicate="s.audit_id = t.audit_id",
        source_alias="s",
        target_alias="t",
        commit_properties=rewriting(),
    )
    merge.when_matched_delete().execute()

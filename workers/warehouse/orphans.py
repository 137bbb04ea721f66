"""Rows that belong to no record: of a commit that was cut off, or of a record that was lost.

An audit's row in `audits` is written last. So where other tables have rows of an audit and `audits`
has none, either its commit never ended, or `audits` lost what it held: its last log entry, or all
of it. Nothing in the warehouse tells one from the other.
"""

import datetime as dt
import pathlib
from dataclasses import dataclass

import polars as pl
from pyarrow import fs

from workers.lake.layout import open_filesystem
from workers.warehouse.store import Warehouse
from workers.warehouse.tables import TABLES

SETTLED = dt.timedelta(hours=1)
"""A commit takes seconds: what lies there longer without a row in `audits` was cut off."""
_OF_AUDITS = tuple(name for name in TABLES if name.startswith("audit"))
"""A release's record is one row of its own table: it has none in `audits`, and misses none."""
_LONGEST = 128
"""Bytes of an audit's id; a longer one is nobody's, and a small file may hold it many times."""
_FORGOTTEN = dt.timedelta(days=7)
"""A log may forget after a week that a file was replaced or deleted on purpose."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """Rows of an audit that has no row in `audits`.

    Attributes:
        audit_id: whose rows.
        tables: where they are; `audits` where only a file that its log does not name has one.
        day: the audited day, where a row says it.
    """

    audit_id: str
    tables: tuple[str, ...]
    day: dt.date | None


def orphans(warehouse: Warehouse) -> list[Orphan]:
    """Return the audits that have rows but no record, sorted by id.

    One that is being committed at this moment may be among them.
    """
    found: dict[str, list[str]] = {}
    # What is read before `audits` may have its record by then.
    for table in _OF_AUDITS:
        ids = _unnamed(warehouse) if table == "audits" else _ids(warehouse, table)
        for audit_id in ids:
            found.setdefault(audit_id, []).append(table)
    for audit_id in _ids(warehouse, "audits"):
        found.pop(audit_id, None)
    wealth = warehouse.scan("audit_wealth").select("audit_id", "day").unique("audit_id")
    days = dict(warehouse.collect(wealth).iter_rows())
    return [Orphan(name, tuple(found[name]), days.get(name)) for name in sorted(found)]


def young(warehouse: Warehouse) -> set[str]:
    """Return the audits with rows in files that were written within the last hour."""
    since = dt.datetime.now(dt.UTC) - SETTLED
    ids: set[str] = set()
    for table in TABLES:
        stored = warehouse.delta(table)
        if stored is None:
            continue
        actions = pl.DataFrame(stored.get_add_actions(flatten=True))
        fresh = actions.filter(pl.col("modification_time") > since.timestamp() * 1000)
        names = set(fresh["path"])
        files = [path for path in stored.file_uris() if pathlib.PurePath(path).name in names]
        if files:
            found = pl.scan_parquet(files, glob=False).select("audit_id").unique()
            ids |= set(warehouse.collect(found)["audit_id"])
    return ids


def _ids(warehouse: Warehouse, table: str) -> list[str]:
    return warehouse.collect(warehouse.scan(table).select("audit_id").unique())[
        "audit_id"
    ].to_list()


def _unnamed(warehouse: Warehouse) -> set[str]:
    """Return the audits of young files of `audits` that its log names neither now nor before."""
    files = open_filesystem(warehouse.uri)
    since = dt.datetime.now(dt.UTC) - _FORGOTTEN
    listed = [
        info
        for info in files.get_file_info(fs.FileSelector("audits", allow_not_found=True))
        if info.base_name.endswith(".parquet") and info.size > 0 and info.mtime > since
    ]
    stored = warehouse.delta("audits")
    if stored is None:
        named = set()
    else:
        replaced = stored.vacuum(0, dry_run=True, enforce_retention_duration=False)
        named = {pathlib.PurePath(path).name for path in (*stored.file_uris(), *replaced)}
    ids: set[str] = set()
    for info in listed:
        if info.base_name not in named:
            ids |= _read_ids(files, info.path)
    return ids


def _read_ids(files: fs.FileSystem, path: str) -> set[str]:
    """Return the audits of one file; none where it was never written to its end."""
    try:
        with files.open_input_file(path) as file:
            short = pl.col("audit_id").str.len_bytes() <= _LONGEST
            return set(pl.read_parquet(file, columns=["audit_id"]).filter(short)["audit_id"])
    except (OSError, pl.exceptions.PolarsError):
        return set()

"""Label files of earlier days that were written after those days' audits, and trained on since."""

import contextlib
import datetime as dt
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

from privcore.exceptions import AuditError
from workers.lake.layout import LabelFile, Lake, is_label_file, labels_folder
from workers.plain_text import plain_text
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

_CLOCKS = 600.0
"""Seconds between storage's clock and ours that are no change."""
_MOST_DAYS = 31
"""Of the last audited days: each is a listing of the lake, once a night for a dataset."""
_LISTED_AT_ONCE = 16
_COLUMNS = (
    "audit_id",
    "model",
    "day",
    "dataset",
    "recorded_at",
    "trained_since",
    "rows_digest",
)  # fmt: skip

SameRows = Callable[[str, dt.date, str], bool | None]
"""Whether a dataset's day has the rows of which a record keeps this digest; None if unknown."""


def late_labels(
    rows: Sequence[AuditRow], lake: Lake, warehouse: Warehouse, same_rows: SameRows
) -> Iterator[tuple[AuditRow, str]]:
    """Yield audits whose training read labels that came after their own day's audit.

    Each night plays the labels of its own days. Training may read earlier ones again, as
    `trained_since` says, and these may have grown since their audit: no audit knows such labels.
    Files are compared by the time at which storage says that they were written, so a table outside
    of the lake is not looked at. Files that are newer may hold the same rows, as a nightly
    compaction writes them: `same_rows` is asked where the audit kept a digest of its rows. What an
    earlier night that read these labels could have told is not told again.
    """
    asked = [row for row in rows if row.trained_since is not None and row.source is None]
    if not asked:
        return
    models = pl.Series([row.model for row in asked], dtype=pl.String)
    known: dict[str, dict[dt.date, Mapping[str, Any]]] = {}
    timed = warehouse.current(models=models, columns=_COLUMNS).drop_nulls("recorded_at")
    for record in timed.iter_rows(named=True):  # every audit has a time, and a forged row may not
        known.setdefault(record["model"], {})[record["day"]] = record
    looked_at = {
        (row.dataset, day) for row in asked for day in _days(row, known.get(row.model, {}))
    }
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:  # storage may be far away
        listed = pool.map(lambda one: _label_files(lake, *one), looked_at)
        files = dict(zip(looked_at, listed, strict=True))
    for row in asked:
        if told := _told(row, known.get(row.model, {}), files, same_rows):
            yield row, f"inputs_changed: {told}"


def _days(row: AuditRow, known: Mapping[dt.date, Mapping[str, Any]]) -> list[dt.date]:
    """Return the audited days whose labels training read again, the latest first."""
    earlier = sorted((day for day in known if day < row.day), reverse=True)
    return [
        day
        for day in earlier[:_MOST_DAYS]
        if _read(day, row.trained_since)
        and day not in (row.label_days or ())
        and known[day]["dataset"] == row.dataset is not None
    ]


def _told(
    row: AuditRow,
    known: Mapping[dt.date, Mapping[str, Any]],
    files: Mapping[tuple[str | None, dt.date], Sequence[LabelFile]],
    same_rows: SameRows,
) -> str:
    """Return which earlier day's files are newer than its audit, the latest such day; or ""."""
    for day in _days(row, known):
        record = known[day]
        later = (known[one] for one in known if day < one < row.day)
        readers = [one for one in later if _read(day, one["trained_since"])]
        seen = max(one["recorded_at"] for one in (record, *readers)).timestamp()
        until = row.recorded_at.timestamp()
        newer = [
            file
            for file in files[row.dataset, day]
            if seen + _CLOCKS < file.changed_ns / 1e9 < until
        ]
        same = functools.partial(same_rows, str(row.dataset), day)
        if newer and (what := _what(newer, record, same)):
            written = dt.datetime.fromtimestamp(newer[0].changed_ns / 1e9, dt.UTC)
            return (
                f"Training read labels of {day} again, and {plain_text(newer[0].name)[:80]!r} "
                f"among them was written on {written:%Y-%m-%d %H:%M} UTC, after their audit "
                f"(record {record['audit_id'][:8]}). {what}: audit that day again, or set days."
            )
    return ""


def _what(
    newer: Sequence[LabelFile], record: Mapping[str, Any], same: Callable[[str], bool | None]
) -> str:
    """Return what newer files may hold; "" where the day's rows are those that were audited."""
    unknown = "Unless the same rows were only written anew, no audit knows of those that came"
    audited = record["rows_digest"]
    if audited is None or not all(map(is_label_file, newer)):
        return unknown
    found = same(audited)
    if found is None:
        return f"The day's rows could not be compared with those that were audited. {unknown}"
    return "" if found else "The day's rows are no longer those that were audited"


def _read(day: dt.date, since: dt.date | None) -> bool:
    """Return whether training since a day read the labels of another one."""
    return since is not None and day >= since


def _label_files(lake: Lake, dataset: str | None, day: dt.date) -> Sequence[LabelFile]:
    """Return a day's files, read or not; none where they cannot be listed, as of an expired day."""
    with contextlib.suppress(AuditError):
        folder = labels_folder(str(dataset), day)
        return [file for file in lake.files_below(folder) if file.size]
    return ()

"""The newest day that a table of scores names, where that can be told without reading its rows."""

import datetime as dt
import urllib.parse

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow import fs

from workers.lake.layout import Lake
from workers.sources.score_tables import TablePlace


def newest_day(place: TablePlace) -> dt.date | None:
    """Return the newest day by folders' names, or by a Delta table's partitions or statistics.

    None where they say none: for Iceberg, and where each row says its own day without statistics.

    Raises:
        NotEvaluableError: the folder cannot be read.
        TransientError: storage kept failing.
    """
    if place.catalog is not None:
        return None
    root = Lake(place.table)
    selector = fs.FileSelector("", recursive=True, allow_not_found=True)
    found = root.patiently(lambda: root.files.get_file_info(selector), place.table)
    paths = [entry.path for entry in found]
    if any(path.startswith("_delta_log/") for path in paths):
        return _newest_of_delta(place)
    prefix = f"{place.day}="
    words = (
        urllib.parse.unquote(part.removeprefix(prefix))
        for path in paths
        for part in path.split("/")
        if part.startswith(prefix)
    )
    return max((day for day in map(_day, words) if day is not None), default=None)


def _newest_of_delta(place: TablePlace) -> dt.date | None:
    try:
        table = deltalake.DeltaTable(place.table, version=place.version)
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except (DeltaError, OSError):
        return None  # whoever reads it says what is wrong
    columns = (f"partition.{place.day}", f"max.{place.day}")
    days = (_day(action.get(name)) for action in actions for name in columns)
    return max((day for day in days if day is not None), default=None)


def _day(value: object) -> dt.date | None:
    """Return the day of a date, a time, or a text or number like 2026-03-02 and 20260302."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError:
        return None

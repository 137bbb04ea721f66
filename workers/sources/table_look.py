"""What somebody's own table looks like: some rows of its newest day, and what says the days."""

import datetime as dt
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import fs

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer, read_row_group
from workers.lake.layout import Lake
from workers.sources.score_tables import TablePlace
from workers.sources.table_files import iceberg_files, open_delta

_ROWS = 50_000

Named = tuple[str, dt.date]
"""A column or folder, and the newest day that it names."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """What was seen of a table.

    Attributes:
        sample: some rows of its newest day, without the folders' own columns.
        folders: names of folders, or of partition columns, that say a day.
        newest: the newest day, by each column or folder that says one for whole files.
    """

    sample: pl.DataFrame
    folders: tuple[str, ...]
    newest: Mapping[str, dt.date]


def look(table: str, *, catalog: str | None = None, day: str | None = None) -> TableLook:
    """Return what a folder of Parquet files, a Delta table or an Iceberg table looks like.

    Args:
        table: path or URI; with `catalog`, the name of an Iceberg table.
        catalog: the Iceberg catalogue, as pyiceberg's own settings know it.
        day: what says the day, where that was said.

    Raises:
        NotEvaluableError: there is none, or its newest file is damaged.
        TransientError: storage kept failing.
    """
    place = TablePlace(table=table, catalog=catalog)
    if catalog is not None:
        root, files = _iceberg(place)
        return _looked_at(root, files, (), day)
    root = Lake(table)
    log = fs.FileSelector("_delta_log", allow_not_found=True)
    if root.patiently(lambda: root.files.get_file_info(log), "_delta_log"):
        delta = open_delta(place)
        partitions = tuple(delta.metadata().partition_columns)
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        return _looked_at(root, dict(map(_of_action, actions)), partitions, day)
    files = _folder(root, table)
    return _looked_at(root, files, {name for said in files.values() for name, _ in said}, day)


def _looked_at(
    root: Lake, files: Mapping[str, list[Named]], partitions: Iterable[str], day: str | None
) -> TableLook:
    """Return the look of files, given the days that are said of each."""
    if not files:
        raise NotEvaluableError(
            Reason.MISSING_LABELS, f"{root.uri} has no files yet: write a day to it first."
        )
    newest: dict[str, tuple[dt.date, str]] = {}
    for path, said in files.items():
        for name, value in said:
            newest[name] = max(newest.get(name, (value, path)), (value, path))
    asked = [name for name in (day, *partitions, *newest) if name in newest]
    path = newest[asked[0]][1] if asked else max(files)
    return TableLook(
        _sample(root, path),
        tuple(name for name in dict.fromkeys(partitions) if name in newest),
        {name: value for name, (value, _) in newest.items()},
    )


def _sample(root: Lake, path: str) -> pl.DataFrame:
    footer = read_footer(root, path)
    names = list(dict.fromkeys(footer.names))
    footer = read_footer(root, path, names)
    batches = read_row_group(root, path, footer, 0, names).batches(names, rows=_ROWS)
    first = next(batches, None)
    sample = pl.from_arrow(footer.schema().empty_table() if first is None else first)
    assert isinstance(sample, pl.DataFrame)  # noqa: S101  # of a table, never of a column
    return sample


def _folder(root: Lake, table: str) -> dict[str, list[Named]]:
    selector = fs.FileSelector("", recursive=True, allow_not_found=True)
    found = root.patiently(lambda: root.files.get_file_info(selector), table)
    paths = [
        entry.path
        for entry in found
        if entry.type == fs.FileType.File
        and entry.base_name.endswith(".parquet")
        and not any(part.startswith(("_", ".")) for part in entry.path.split("/"))
    ]
    if not paths:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"{table} is no Delta table and holds no .parquet file: check the address.",
        )
    return {path: _named(_parts(path)) for path in paths}


def _parts(path: str) -> list[tuple[str, Any]]:
    words = (part.partition("=") for part in path.split("/")[:-1])
    return [(name, urllib.parse.unquote(value)) for name, equals, value in words if equals]


def _of_action(action: Mapping[str, Any]) -> tuple[str, list[Named]]:
    """Return a Delta table's file, and the newest days that its log says of it."""
    kinds = ("partition.", "max.")
    said = [
        (name.removeprefix(kind), value)
        for kind in kinds
        for name, value in action.items()
        if name.startswith(kind)
    ]
    return urllib.parse.unquote(action["path"]), _named(said)


def _iceberg(place: TablePlace) -> tuple[Lake, dict[str, list[Named]]]:
    location, paths = iceberg_files(place)
    root = Lake(location)
    return root, {path: _named(list(bounds.items())) for path, bounds in paths.items()}


def _named(said: list[tuple[str, Any]]) -> list[Named]:
    """Return what is said of days alone."""
    found = ((name, as_day(value)) for name, value in said)
    return [(name, value) for name, value in found if value is not None]


def as_day(value: Any) -> dt.date | None:
    """Return the day of a date, a time, or text like 2026-03-02 or 20260302; None of all else."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if not isinstance(value, str):
        return None
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        return None

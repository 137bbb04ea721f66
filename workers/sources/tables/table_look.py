"""Sample of an unknown table: some rows of its newest day, and what says the days."""

import datetime as dt
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer, read_row_group
from workers.lake.layout import Lake
from workers.sources.tables.csv_text import parquet_of
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_days import Named, days_named
from workers.sources.tables.table_files import (
    delta_days,
    files_of_rows,
    folder_words,
    iceberg_days,
    is_csv,
    is_delta,
    table_root,
)

_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class TableLook:
    """Sample of a table.

    Attributes:
        sample: some rows of its newest day, without the folders' own columns.
        folders: names of folders, or of partition columns, that say a day.
        newest: the newest day, by each column or folder that says one for whole files.
        words: of each other name=word of a folder, the words of all files.
    """

    sample: pl.DataFrame
    folders: tuple[str, ...]
    newest: Mapping[str, dt.date]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look(table: str, *, catalog: str | None = None, day: str | None = None) -> TableLook:
    """Return what a folder of Parquet files, a Delta table or an Iceberg table looks like.

    Raises:
        NotEvaluableError: there is none, or its newest file is damaged.
    """
    root, files, partitions = _days_named(TablePlace(table=table, catalog=catalog))
    seen = _looked_at(root, files, partitions, day)
    if catalog is not None or is_delta(root):  # whose partitions are no folders
        return seen
    words: dict[str, set[str]] = {}
    for name, word in (pair for path in files for pair in folder_words(path)):
        if name not in seen.newest and name not in seen.sample.columns:
            words.setdefault(name, set()).add(word)
    return replace(seen, words={name: tuple(sorted(said)) for name, said in words.items()})


def newest_day(place: TablePlace) -> dt.date | None:
    """Return the newest day that folders, partitions or statistics name; None where they do not."""
    _, files, _ = _days_named(place)
    days = (day for named in files.values() for name, day in named if name == place.day)
    return max(days, default=None)


def _days_named(place: TablePlace) -> tuple[Lake, dict[str, list[Named]], tuple[str, ...]]:
    """Return where a table lies, the days that are said of each file, and what says them of all."""
    if place.catalog is not None:
        location, files = iceberg_days(place)
        return Lake(location), files, ()
    root, only = table_root(place.table)
    if only is None and is_delta(root):
        partitions, files = delta_days(place)
        return root, files, partitions
    found, _ = files_of_rows(root, only)
    files = {file.name: days_named(folder_words(file.name)) for file in found}
    return root, files, tuple({name for said in files.values() for name, _ in said})


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
    days = {name: value for name, (value, _) in newest.items()}
    file = root.label_file(path)._replace(name=path)
    if is_csv([file]):
        content, found = parquet_of(root, file, None, rows=_ROWS)
        with tempfile.TemporaryDirectory() as folder:  # its reader may have been taken over
            Lake(folder).write("sample", content)
            sample = _sample(Lake(folder), "sample")
        days = {name: dt.date.fromisoformat(day) for name, day in found["newest"].items()} | days
    else:
        sample = _sample(root, path)
    folders = tuple(name for name in dict.fromkeys(partitions) if name in newest)
    return TableLook(sample, folders, days)


def _sample(root: Lake, path: str) -> pl.DataFrame:
    footer = read_footer(root, path)
    names = list(dict.fromkeys(footer.names))
    footer = read_footer(root, path, names)
    batches = read_row_group(root, path, footer, 0, names).batches(names, rows=_ROWS)
    first = next(batches, None)
    sample = pl.from_arrow(footer.schema().empty_table() if first is None else first)
    assert isinstance(sample, pl.DataFrame)  # noqa: S101  # of a table, never of a column
    return sample

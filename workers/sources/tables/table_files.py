"""Files of one day of a table: Parquet files, a Delta version or an Iceberg snapshot; and a sample.

A table is read as its files are: byte ranges of Parquet, with nothing copied. What Delta and
Iceberg keep beside their files (deleted rows, renamed columns) is not in them, so a table that has
such is refused, with the way out. A contained child reads Delta's logs and Iceberg's metadata.
"""

import contextlib
import datetime as dt
import posixpath
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from pyarrow import fs

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer, read_row_group
from workers.labels.shards import READERS, Partition, divide, refuse_table_format
from workers.lake.layout import PARQUET, LabelFile, Lake
from workers.lake.places import check_uri, local_path, placed
from workers.sources.tables.csv_text import parquet_of
from workers.sources.tables.day_tables import DayTable, TablePlace
from workers.sources.tables.table_child import ask, place_of, properties_of, warehouse_of
from workers.sources.tables.table_days import (
    Named,
    days_named,
    names_day,
    spelled_twice,
    words_of_day,
)

CSV = "csv"
_CSV = (".csv", ".csv.gz", ".csv.zst")
_AT_ONCE = 1_000  # files whose sizes are asked for in one request
_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class TableDay:
    """One day of a table.

    Attributes:
        root: below which the files lie.
        kind: `parquet`, `csv`, `delta`, `iceberg`, or `query` of rows that a database gave.
        version: of the Delta table, or snapshot of the Iceberg table; None of a folder.
        files: sorted by name, which may hold folders.
        day_in_files: whether the files may hold other days too, so that each row is asked.
        called: what sentences call it; its address if left out.
    """

    root: Lake
    kind: str
    version: int | None
    files: tuple[LabelFile, ...]
    day_in_files: bool
    called: str | None = None

    @property
    def name(self) -> str:
        """The table's name in sentences."""
        return self.root.uri if self.called is None else self.called


def find_day(place: TablePlace, day: dt.date, *, zone: str | None = None) -> TableDay:
    """Return the files that hold a day of a table, at its version or its newest.

    In `zone`, by default the table's own, a folder's or a partition's time falls on a day.

    Raises:
        NotEvaluableError: there is no such table, version or day, or it holds what is not in its
            files.
        TransientError: storage kept failing.
    """
    if place.catalog is not None:
        return _iceberg_day(place, day)
    zone = zone or (place.time_zone if isinstance(place, DayTable) else "UTC")
    if local_path(place.table) is None:
        check_uri(place.table)
    root, only = table_root(place.table)
    if only is None and is_delta(root):
        return _delta_day(place, root, day, zone)
    return _folder_day(place, root, only, day, zone)


def table_root(table: str) -> tuple[Lake, str | None]:
    """Return below which folder a table lies, and its name there if it is a single file."""
    local = local_path(table)
    named = table.partition("?")[0].lower().endswith((*PARQUET, *_CSV))
    if not (named or (local is not None and local.is_file())):
        return Lake(table), None
    root, name = parent_of(table)
    # Spark gives folders such names, too.
    return (root, name) if root.has(name) else (Lake(table), None)


def parent_of(place: str) -> tuple[Lake, str]:
    """Return the folder in which a file lies, and its name there."""
    path, mark, query = place.partition("?") if local_path(place) is None else (place, "", "")
    folder, _, name = path.rpartition("/")
    return Lake((folder or ("/" if path.startswith("/") else ".")) + mark + query), name


def partition_of(found: TableDay, table: str, day: dt.date) -> tuple[Lake, Partition]:
    """Return a day's files as units of work, and below which root they lie."""
    units = divide(found.root, "", found.files)
    return found.root, Partition(table, day, "", found.files, units)


def is_delta(root: Lake) -> bool:
    """Return whether a folder holds a Delta table."""
    log = fs.FileSelector("_delta_log", allow_not_found=True)
    return bool(root.patiently(lambda: root.files.get_file_info(log), "_delta_log"))


def files_of_rows(root: Lake, only: str | None = None) -> list[LabelFile]:
    """Return the files of rows below a folder; or `only` one.

    They are Parquet, or CSV where there is no Parquet; what is hidden or temporary is none. A file
    without an ending is Parquet if it begins so, as Athena, Hive and Trino write it.

    Raises:
        NotEvaluableError: there is none, the folder is a table format's, or cannot be read.
    """
    if only is not None:
        return [root.label_file(only)._replace(name=only)]
    files = root.files_below("")
    refuse_table_format(root, "", files)
    shown = [
        file for file in files if not any(part[:1] in {"_", "."} for part in file.name.split("/"))
    ]
    bare = [file for file in shown if "." not in posixpath.basename(file.name)]
    with ThreadPoolExecutor(READERS) as pool:
        begun = pool.map(lambda file: _begins_as_parquet(root, file.name), bare)
        parquet = {file for file, is_one in zip(bare, begun, strict=True) if is_one}
    parquet |= {file for file in shown if file.name.lower().endswith(PARQUET)}
    found = sorted(parquet) or [file for file in shown if is_csv([file])]
    if not found:
        what = f"none of its {len(files):,} files is one of rows" if files else "holds no file"
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"{root.uri} is no Delta table, and {what}: check the address, or let files end in "
            f"{', '.join((*PARQUET, *_CSV))} (Parquet may also have no ending).",
        )
    return found


def _begins_as_parquet(root: Lake, name: str) -> bool:
    def begin() -> bytes:
        with root.open(name) as file:
            return bytes(file.read(len(_MAGIC)))

    try:
        return root.patiently(begin, name) == _MAGIC
    except FileNotFoundError:
        return False


def is_csv(files: Iterable[LabelFile]) -> bool:
    """Return whether files of rows are CSV."""
    return any(file.name.lower().endswith(_CSV) for file in files)


def without_csv(found: TableDay) -> TableDay:
    """Return a day, unless it is of CSV files.

    Raises:
        NotEvaluableError: models would score rows of which no setting says the kinds.
    """
    if found.kind != CSV:
        return found
    raise NotEvaluableError(
        Reason.TABLE_UNSUPPORTED,
        f"{found.name} is CSV, in which features have no types, and models are to score its rows: "
        "write it as Parquet, as by python -c \"import polars; polars.read_csv('rows.csv', "
        "try_parse_dates=True).write_parquet('rows.parquet')\".",
    )


def no_such_day(place: TablePlace, day: dt.date) -> NotEvaluableError:
    """Return that a table has no row of the day yet."""
    return NotEvaluableError(
        Reason.MISSING_LABELS,
        f"{place.table} has no {place.day} = {day}: write the day's rows, or name the column or "
        f"folder that says the day, as a date, a time or text like {day}.",
    )


def _folder_day(
    place: TablePlace, root: Lake, only: str | None, day: dt.date, zone: str
) -> TableDay:
    """Return files of rows below folders `day=...`, or all of a folder without such."""
    found = files_of_rows(root, only)

    def said(file: LabelFile) -> list[str]:
        return words_of_day(folder_words(file.name), str(place.day))

    by_folder = any(map(said, found))

    def of(file: LabelFile) -> bool:
        return not by_folder or any(names_day(word, day, zone) for word in said(file))

    files = tuple(sorted(filter(of, found)))
    if not files:
        raise no_such_day(place, day)
    _check_one_spelling(place, {f"/{place.day}=".join(said(file)) for file in files}, zone)
    in_files = not by_folder and place.day is not None
    return TableDay(root, CSV if is_csv(files) else "parquet", None, files, in_files)


def folder_words(path: str) -> list[tuple[str, str]]:
    """Return what the folders of a file say, as name=word."""
    words = (part.partition("=") for part in path.split("/")[:-1])
    return [(name, unquote(word)) for name, equals, word in words if equals]


def _check_one_spelling(place: TablePlace, spelled: Collection[str], zone: str) -> None:
    """Refuse a day in two spellings, or in two days' folders: its rows may lie there twice."""
    if spelled_twice(spelled, zone) or any("/" in word for word in spelled):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"{place.table} has the day twice, as {place.day} = {' and '.join(sorted(spelled))}: "
            "keep one.",
        )


def delta_days(place: TablePlace) -> tuple[tuple[str, ...], dict[str, list[Named]]]:
    """Return a Delta table's partition columns, and the newest days that are said of each file."""
    found = _ask_delta("days_of_files", place)
    return tuple(found["partitions"]), _as_named(found["files"])


def iceberg_days(place: TablePlace) -> tuple[str, dict[str, list[Named]]]:
    """Return where an Iceberg table lies, and the newest days that are said of each file.

    Raises:
        NotEvaluableError: there is no such table, or it cannot be read.
    """
    found = _ask_iceberg("days_of_files", place)
    location = found["location"]
    files = {_below(location, path): days for path, days in found["files"].items()}
    return _iceberg_root(place, location), _as_named(files)


def _as_named(files: dict[str, list[tuple[str, str]]]) -> dict[str, list[Named]]:
    return {
        path: [(name, dt.date.fromisoformat(day)) for name, day in days]
        for path, days in files.items()
    }


def _delta_day(place: TablePlace, root: Lake, day: dt.date, zone: str) -> TableDay:
    found = _ask_delta("files_of_day", place, **_asked(place, day), zone=zone)
    if not found["files"]:
        raise no_such_day(place, day)
    _check_one_spelling(place, found["said"], zone)
    files = _listed(root, found["files"], place)
    apart = {name.casefold() for name in found["apart"] if name != place.day}
    if isinstance(place, DayTable) and place.holdout_rule.column.casefold() in apart:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Delta table {place.table} keeps {place.holdout_rule.column!r} in its log, and an "
            "audit reads files: partition by another column.",
        )
    in_files = not found["partitioned"] and place.day is not None
    return TableDay(root, "delta", found["version"], files, in_files)


def _asked(place: TablePlace, day: dt.date) -> dict[str, str | None]:
    """Return the day that is asked for, and its column."""
    return {"column": place.day, "day": day.isoformat()}


def _iceberg_day(place: TablePlace, day: dt.date) -> TableDay:
    found = _ask_iceberg("files_of_day", place, **_asked(place, day))
    names = [_below(found["location"], path) for path in found["files"]]
    if not names:
        raise no_such_day(place, day)
    root = Lake(_iceberg_root(place, found["location"]))
    files = _listed(root, names, place)
    return TableDay(root, "iceberg", found["snapshot"], files, place.day is not None)


def _ask_delta(question: str, place: TablePlace, **about: Any) -> Any:
    about |= {"table": place.table, "version": place.version}
    name, folder = f"The Delta table {place.table}", local_path(place.table)
    places = None if folder is None else str(folder)
    return ask("workers.sources.tables.delta_log", name, question, places=places, **about)


def _ask_iceberg(question: str, place: TablePlace, **about: Any) -> Any:
    about |= {"table": place.table, "version": place.version}
    about |= {"catalog": place.catalog, "properties": properties_of(str(place.catalog))}
    name, places = f"The Iceberg table {place.table}", about["properties"]
    return ask("workers.sources.tables.iceberg_metadata", name, question, places=places, **about)


def _iceberg_root(place: TablePlace, location: str) -> str:
    return placed(*place_of(location, warehouse_of(properties_of(str(place.catalog)))))


def _below(location: str, path: str) -> str:
    folder = f"{location.rstrip('/')}/"
    if not path.startswith(folder):
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"{path} lies outside of the Iceberg table's location, {location}: rewrite it there.",
        )
    return path[len(folder) :]


def _listed(root: Lake, names: list[str], place: TablePlace) -> tuple[LabelFile, ...]:
    """Return files with the sizes and times that storage gives them now.

    Raises:
        NotEvaluableError: one is gone, or listed twice, so that its rows would count twice.
    """
    files = []
    names = sorted(names)
    once = {posixpath.normpath(name) for name in names}
    if len(once) < len(names):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"{place.table} lists a file twice, under two spellings of its path or in two of its "
            "manifests, so that its rows would count twice: write the table anew.",
        )
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        infos = root.patiently(lambda some=some: root.files.get_file_info(some), place.table)  # type: ignore[misc]
        for name, info in zip(some, infos, strict=True):
            if info.type != fs.FileType.File:
                raise NotEvaluableError(
                    Reason.LABELS_CHANGED,
                    f"{place.table} lists {name}, which is gone: keep the files of a version "
                    "(vacuum, expired snapshots) for as long as it is audited.",
                )
            files.append(LabelFile(name, int(info.size or 0), int(info.mtime_ns or 0)))
    return tuple(files)


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
    found = files_of_rows(root, only)
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
    with _as_parquet(root, file, rows=_ROWS) as (place, name, said_by_csv):
        sample = _sample(place, name)
    days = {name: dt.date.fromisoformat(day) for name, day in said_by_csv.items()} | days
    folders = tuple(name for name in dict.fromkeys(partitions) if name in newest)
    return TableLook(sample, folders, days)


@contextlib.contextmanager
def _as_parquet(
    root: Lake, file: LabelFile, *, rows: int = 0
) -> Iterator[tuple[Lake, str, dict[str, str]]]:
    """Yield where a file's rows lie as Parquet, and the newest day of each column of a CSV file."""
    if not is_csv([file]):
        yield root, file.name, {}
        return
    content, said = parquet_of(root, file, None, rows=rows)
    with tempfile.TemporaryDirectory() as folder:  # its reader may have been taken over
        Lake(folder).write("rows", content)
        yield Lake(folder), "rows", said["newest"]


def _sample(root: Lake, path: str) -> pl.DataFrame:
    footer = read_footer(root, path)
    names = list(dict.fromkeys(footer.names))
    footer = read_footer(root, path, names)
    batches = read_row_group(root, path, footer, 0, names).batches(names, rows=_ROWS)
    first = next(batches, None)
    sample = pl.from_arrow(footer.schema().empty_table() if first is None else first)
    assert isinstance(sample, pl.DataFrame)  # noqa: S101  # of a table, never of a column
    return sample


def read_rows(table: str, *, most: int | None = None) -> pl.DataFrame:
    """Return the rows of Parquet or CSV files, or of a Delta table, as they are stored.

    A column that only folders name, as day=2026-03-02, has their words. Text that rows share is
    held once.

    Raises:
        NotEvaluableError: there is no such table, or it cannot be read, or it unpacks to more than
            `most` bytes, or a row group of it to more than half of that. Decoding text takes three
            times what it unpacks to, so that all takes at most 2.5 times `most`.
        TransientError: storage kept failing.
    """
    return rows_of(find_day(TablePlace(table=table), dt.date.min), most=most)


def rows_of(found: TableDay, *, most: int | None = None) -> pl.DataFrame:
    """Return all rows of the files of a table that were found; raises as `read_rows`."""
    parts, held = [], 0
    for file in found.files:
        words = dict(folder_words(file.name))
        with _as_parquet(found.root, file) as (root, name, _):
            for table in _parquet_rows(root, name, None if most is None else most // 2):
                held += table.nbytes
                if most is not None and held > most:
                    raise NotEvaluableError(
                        Reason.TOO_LARGE,
                        f"The table unpacks to more than the {most:,} bytes that are held at once, "
                        f"with {file.name}: give fewer rows or columns.",
                    )
                part = _frame(table)
                lacking = {key: pl.lit(word) for key, word in words.items() if key not in part}
                parts.append(part.with_columns(**lacking))
    return pl.concat(parts, how="diagonal_relaxed")


def _parquet_rows(root: Lake, path: str, most: int | None) -> Iterator[pa.Table]:
    """Yield a file's row groups, of a file without any its columns; text may stay encoded."""
    names = list(dict.fromkeys(read_footer(root, path).names))
    footer = read_footer(root, path, names)
    if not footer.groups:
        yield footer.schema().empty_table()
    for one, group in enumerate(footer.groups):
        # Of runs, no page says how many bytes they become.
        if most is not None and 8 * group.rows * len(names) > most:
            raise NotEvaluableError(
                Reason.TOO_LARGE,
                f"A row group of {path} has {group.rows:,} rows of {len(names)} columns, which may "
                f"take more than {most:,} bytes: write smaller row groups or fewer columns.",
            )
        yield read_row_group(root, path, footer, one, names, most=most).table(
            names, encoded=footer.text
        )


def _frame(table: pa.Table) -> pl.DataFrame:
    """Return a table whose encoded text is text, which rows share as they did."""
    columns: dict[str, pl.Series] = {}
    for name in table.column_names:
        column = table[name]
        kind = column.type
        if pa.types.is_dictionary(kind) and kind.value_type in {pa.string(), pa.large_string()}:
            chunks = [
                pl.Series(one.dictionary).gather(pl.Series(one.indices)) for one in column.chunks
            ]
            columns[name] = pl.concat(chunks) if chunks else pl.Series([], dtype=pl.String)
        else:
            columns[name] = pl.Series(column)
    return pl.DataFrame(columns)

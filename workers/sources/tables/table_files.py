"""Files of one day of a table: Parquet files, a Delta version or an Iceberg snapshot; and a sample.

A table is read as its files are: byte ranges of Parquet, with nothing copied. What Delta and
Iceberg keep beside their files (deleted rows, renamed columns) is not in them, so a table that has
such is refused, with the way out. A contained child reads Delta's logs and Iceberg's metadata.
"""

import contextlib
import datetime as dt
import posixpath
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
from pyarrow import fs

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import folder_words, read_footer, read_row_group
from workers.labels.shards import READERS, Partition, divide, refuse_table_format
from workers.lake.layout import PARQUET, LabelFile, Lake
from workers.lake.places import local_path, placed
from workers.sources.tables.csv_text import parquet_of
from workers.sources.tables.day_tables import DayTable, TablePlace
from workers.sources.tables.table_child import ask, place_of, properties_of, warehouse_of
from workers.sources.tables.table_days import (
    Named,
    days_named,
    moment_named,
    names_day,
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
    zone = zone or (place.time_zone if isinstance(place, DayTable) else "UTC")
    root, only = _root(place)
    if root is None:
        return _logged_day(place, day, zone)
    return _folder_day(place, root, only, day, zone)


def _root(place: TablePlace) -> tuple[Lake | None, str | None]:
    """Return below which folder a table of files lies, and its name there if it is a single file.

    None of a table whose log or catalogue says which files it has.
    """
    table = place.table
    if place.catalog is not None:
        return None, None
    local = local_path(table)
    if table.partition("?")[0].lower().endswith((*PARQUET, *_CSV)) or (
        local is not None and local.is_file()
    ):
        root, name = parent_of(table)
        if root.has(name):  # Spark gives folders such names, too
            return root, name
    root = Lake(table)
    log = fs.FileSelector("_delta_log", allow_not_found=True)
    logged = root.patiently(lambda: root.files.get_file_info(log), "_delta_log")
    return None if logged else root, None


def parent_of(place: str) -> tuple[Lake, str]:
    """Return the folder in which a file lies, and its name there."""
    path, mark, query = place.partition("?") if local_path(place) is None else (place, "", "")
    folder, _, name = path.rpartition("/")
    return Lake((folder or ("/" if path.startswith("/") else ".")) + mark + query), name


def partition_of(found: TableDay, table: str, day: dt.date) -> tuple[Lake, Partition]:
    """Return a day's files as units of work, and below which root they lie."""
    units = divide(found.root, "", found.files)
    return found.root, Partition(table, day, "", found.files, units)


def files_of_rows(root: Lake, only: str | None = None) -> list[LabelFile]:
    """Return the files of rows below a folder; or `only` one.

    They are Parquet, or CSV where there is no Parquet; what is hidden or temporary is none. A file
    without an ending is Parquet if it begins so, as Athena, Hive and Trino write it.

    Raises:
        NotEvaluableError: there is none, the folder is a table format's, or cannot be read.
    """
    if only is not None:
        return [root.label_file(only)]
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
    found = sorted(parquet) or list(filter(is_csv, shown))
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


def is_csv(file: LabelFile) -> bool:
    """Return whether a file of rows is CSV."""
    return file.name.lower().endswith(_CSV)


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
    said = {
        file: words_of_day(folder_words(file.name), str(place.day))
        for file in files_of_rows(root, only)
    }
    by_folder = any(said.values())
    files = tuple(
        file
        for file, words in sorted(said.items())
        if not by_folder or any(names_day(word, day, zone) for word in words)
    )
    if not files:
        raise no_such_day(place, day)
    _check_one_spelling(place, {f"/{place.day}=".join(said[file]) for file in files}, zone)
    kind = CSV if any(map(is_csv, files)) else "parquet"
    return TableDay(root, kind, None, files, not by_folder and place.day is not None)


def _check_one_spelling(place: TablePlace, spelled: Collection[str], zone: str) -> None:
    """Refuse a day in two spellings, or in two days' folders: its rows may lie there twice.

    Several times of a day are its parts.
    """
    forms = {re.sub(r"\d", "0", re.sub(r"\.\d+", "", word)) for word in spelled}
    moments = {moment_named(word, zone) for word in spelled}
    if len(forms) > 1 or len(moments) < len(spelled) or any("/" in word for word in spelled):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"{place.table} has the day twice, as {place.day} = {' and '.join(sorted(spelled))}: "
            "keep one.",
        )


def _logged_day(place: TablePlace, day: dt.date, zone: str) -> TableDay:
    """Return the files that a Delta log, or an Iceberg snapshot, has of a day."""
    zones = {"zone": zone} if place.catalog is None else {}  # Iceberg's partitions stay in its rows
    root, found = _ask(place, "files_of_day", column=place.day, day=day.isoformat(), **zones)
    if not found["files"]:
        raise no_such_day(place, day)
    said = found["said"]
    _check_one_spelling(place, said, zone)
    files = _listed(root, found["files"], place)
    apart = {name.casefold() for name in found["apart"] if name != place.day}
    if isinstance(place, DayTable) and place.holdout_rule.column.casefold() in apart:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Delta table {place.table} keeps {place.holdout_rule.column!r} in its log, and an "
            "audit reads files: partition by another column.",
        )
    kind = "delta" if place.catalog is None else "iceberg"
    return TableDay(root, kind, found["version"], files, place.day is not None and not said)


def _ask(place: TablePlace, question: str, **about: Any) -> tuple[Lake, dict[str, Any]]:
    """Return where a table lies, and what its log or catalogue says of the files below."""
    about |= {"table": place.table, "version": place.version}
    if place.catalog is None:
        folder = local_path(place.table)
        return Lake(place.table), ask(
            "workers.sources.tables.delta_log",
            f"The Delta table {place.table}",
            question,
            places=None if folder is None else str(folder),
            **about,
        )
    properties = properties_of(place.catalog)
    found = ask(
        "workers.sources.tables.iceberg_metadata",
        f"The Iceberg table {place.table}",
        question,
        places=properties,
        catalog=place.catalog,
        properties=properties,
        **about,
    )
    location = f"{found['location'].rstrip('/')}/"
    for path in found["files"]:
        if not path.startswith(location):
            raise NotEvaluableError(
                Reason.PATH_OUTSIDE,
                f"{path} lies outside of the Iceberg table's location, {location}: rewrite it "
                "there.",
            )
    below = [path.removeprefix(location) for path in found["files"]]
    root = placed(*place_of(found["location"], warehouse_of(properties)))
    return Lake(root), found | {"files": below}


def _listed(root: Lake, names: list[str], place: TablePlace) -> tuple[LabelFile, ...]:
    """Return files with the sizes and times that storage gives them now."""
    files, names = [], sorted(names)
    if len(set(names)) < len(names):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"{place.table} lists a file twice, so that its rows would count twice: write the "
            "table anew.",
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
        table: its address.
        sample: some rows of its newest day, without the folders' own columns.
        folders: names of folders, or of partition columns, that say a day.
        newest: the newest day, by each column or folder that says one for whole files.
        words: of each other name=word of a folder, the words of all files.
    """

    table: str
    sample: pl.DataFrame
    folders: tuple[str, ...]
    newest: Mapping[str, dt.date]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look(table: str, *, catalog: str | None = None, day: str | None = None) -> TableLook:
    """Return what a folder of Parquet files, a Delta table or an Iceberg table looks like.

    Raises:
        NotEvaluableError: there is none, or its newest file is damaged.
    """
    said = _days_named(TablePlace(table=table, catalog=catalog))
    if not said.files:
        raise NotEvaluableError(
            Reason.MISSING_LABELS, f"{said.root.uri} has no files yet: write a day to it first."
        )
    last: dict[str, tuple[dt.date, str]] = {}
    for path, days in said.files.items():
        for name, value in days:
            last[name] = max(last.get(name, (value, path)), (value, path))
    asked = [name for name in (day, *said.by, *last) if name in last]
    path = last[asked[0]][1] if asked else max(said.files)
    file = said.root.label_file(path)
    with _as_parquet(said.root, file, rows=_ROWS) as (root, name, said_by_csv):
        sample = _frame(next(_tables(root, name, rows=_ROWS)))
    newest = {name: dt.date.fromisoformat(value) for name, value in said_by_csv.items()}
    newest |= {name: value for name, (value, _) in last.items()}
    words = {
        name: tuple(sorted(word))
        for name, word in said.words.items()
        if name not in newest and name not in sample.columns
    }
    return TableLook(table, sample, tuple(name for name in said.by if name in last), newest, words)


def newest_day(place: TablePlace) -> dt.date | None:
    """Return the newest day that folders, partitions or statistics name; None where they do not."""
    named = _days_named(place).files.values()
    return max((day for days in named for name, day in days if name == place.day), default=None)


class _Said(NamedTuple):
    """What is said of a table's files: the days of each, by folders or partitions `by` a name.

    `words` are those of all folders name=word, of a table that is none of a log's.
    """

    root: Lake
    files: dict[str, list[Named]]
    by: tuple[str, ...]
    words: dict[str, set[str]]


def _days_named(place: TablePlace) -> _Said:
    root, only = _root(place)
    if root is None:
        root, found = _ask(place, "days_of_files")
        days = [[(name, dt.date.fromisoformat(day)) for name, day in of] for of in found["days"]]
        files = dict(zip(found["files"], days, strict=True))
        return _Said(root, files, tuple(found["partitions"]), {})
    folders = {file.name: folder_words(file.name) for file in files_of_rows(root, only)}
    words: dict[str, set[str]] = {}
    for name, word in (pair for pairs in folders.values() for pair in pairs):
        words.setdefault(name, set()).add(word)
    files = {name: days_named(pairs) for name, pairs in folders.items()}
    by = dict.fromkeys(name for days in files.values() for name, _ in days)
    return _Said(root, files, tuple(by), words)


@contextlib.contextmanager
def _as_parquet(
    root: Lake, file: LabelFile, *, rows: int = 0
) -> Iterator[tuple[Lake, str, dict[str, str]]]:
    """Yield where a file's rows lie as Parquet, and the newest day of each column of a CSV file."""
    if not is_csv(file):
        yield root, file.name, {}
        return
    content, said = parquet_of(root, file, None, rows=rows)
    with tempfile.TemporaryDirectory() as folder:  # its reader may have been taken over
        Lake(folder).write("rows", content)
        yield Lake(folder), "rows", said["newest"]


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
            for table in _tables(root, name, most=None if most is None else most // 2):
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


def _tables(
    root: Lake, path: str, *, most: int | None = None, rows: int | None = None
) -> Iterator[pa.Table]:
    """Yield a file's row groups, or at most `rows` rows at a time; text may stay encoded.

    Of a file without any there are its columns.
    """
    footer = read_footer(root, path, None)
    names = list(dict.fromkeys(footer.names))
    for one, group in enumerate(footer.groups):
        # Of runs, no page says how many bytes they become.
        if most is not None and 8 * group.rows * len(names) > most:
            raise NotEvaluableError(
                Reason.TOO_LARGE,
                f"A row group of {path} has {group.rows:,} rows of {len(names)} columns, which may "
                f"take more than {most:,} bytes: write smaller row groups or fewer columns.",
            )
        read = read_row_group(root, path, footer, one, names, most=most)
        yield from read.batches(names, rows=rows or max(group.rows, 1), encoded=footer.text)
    yield footer.schema().empty_table()


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

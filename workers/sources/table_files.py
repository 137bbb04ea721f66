"""Where one day of a table lies: Parquet files, a Delta version or an Iceberg snapshot.

A table is read as its files are: byte ranges of Parquet, with nothing copied. What Delta and
Iceberg keep beside their files (deleted rows, renamed columns) is not in them, so a table that has
such is refused, with the way out.
"""

import datetime as dt
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from privcore.exceptions import TerminalError, is_failure
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.shards import Partition, divide
from workers.lake.layout import LabelFile, Lake
from workers.lake.places import check_uri, local_path
from workers.sources.day_tables import TablePlace

_AT_ONCE = 1_000  # files whose sizes are asked for in one request


@dataclass(frozen=True, slots=True)
class TableDay:
    """One day of a table.

    Attributes:
        root: below which the files lie.
        kind: `parquet`, `delta` or `iceberg`.
        version: of the Delta table, or snapshot of the Iceberg table; None of a folder.
        files: sorted by name, which may hold folders.
        day_in_files: whether the files may hold other days too, so that each row is asked.
    """

    root: Lake
    kind: str
    version: int | None
    files: tuple[LabelFile, ...]
    day_in_files: bool


def find_day(place: TablePlace, day: dt.date) -> TableDay:
    """Return the files that hold a day of a table, at its version or its newest.

    Raises:
        NotEvaluableError: there is no such table, version or day, or it holds what is not in its
            files.
        TransientError: storage kept failing.
    """
    if place.catalog is not None:
        return _iceberg_day(place, day)
    if local_path(place.table) is None:
        check_uri(place.table)
    root = Lake(place.table)
    if is_delta(root):
        return _delta_day(place, root, day)
    return _folder_day(place, root, day)


def partition_of(
    found: TableDay, table: str, day: dt.date, *, work_unit_bytes: int
) -> tuple[Lake, Partition]:
    """Return a day's files as units of work, and below which root they lie.

    Raises:
        TransientError: storage kept failing.
    """
    units = divide(found.root, "", found.files, work_unit_bytes)
    return found.root, Partition(table, day, "", found.files, units)


def is_delta(root: Lake) -> bool:
    """Whether a folder holds a Delta table.

    Raises:
        NotEvaluableError: it cannot be read.
        TransientError: storage kept failing.
    """
    log = fs.FileSelector("_delta_log", allow_not_found=True)
    return bool(root.patiently(lambda: root.files.get_file_info(log), "_delta_log"))


def parquet_entries(root: Lake) -> list[fs.FileInfo]:
    """Return the Parquet files below a folder, but what is hidden or temporary.

    Raises:
        NotEvaluableError: there is none, or the folder cannot be read.
        TransientError: storage kept failing.
    """
    selector = fs.FileSelector("", recursive=True, allow_not_found=True)
    entries = [
        entry
        for entry in root.patiently(lambda: root.files.get_file_info(selector), root.uri)
        if entry.type == fs.FileType.File
        and entry.base_name.endswith(".parquet")
        and not any(part.startswith(("_", ".")) for part in entry.path.split("/"))
    ]
    if not entries:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"{root.uri} is no Delta table and holds no .parquet file: check the address.",
        )
    return entries


def says_day(text: str, day: dt.date) -> bool:
    """Whether a folder's or a column's text names the day: 2026-03-02 or 20260302."""
    return text in {day.isoformat(), f"{day:%Y%m%d}"}


def no_such_day(place: TablePlace, day: dt.date) -> NotEvaluableError:
    """Return that a table has no row of the day yet."""
    return NotEvaluableError(
        Reason.MISSING_LABELS,
        f"{place.table} has no {place.day} = {day}: write the day's rows, or name the column or "
        f"folder that says the day, as a date, a time or text like {day}.",
    )


def _folder_day(place: TablePlace, root: Lake, day: dt.date) -> TableDay:
    """Return Parquet files below folders `day=...`, or all of a folder without such."""
    entries = parquet_entries(root)
    prefix = f"{place.day}="
    named = {
        entry.path: [
            urllib.parse.unquote(part[len(prefix) :])
            for part in entry.path.split("/")[:-1]
            if part.startswith(prefix)
        ]
        for entry in entries
    }
    by_folder = any(named.values())
    chosen = [
        entry
        for entry in entries
        if not by_folder or any(says_day(word, day) for word in named[entry.path])
    ]
    if not chosen:
        raise no_such_day(place, day)
    files = sorted(
        LabelFile(entry.path, int(entry.size or 0), int(entry.mtime_ns or 0)) for entry in chosen
    )
    return TableDay(root, "parquet", None, tuple(files), day_in_files=not by_folder)


def _delta_day(place: TablePlace, root: Lake, day: dt.date) -> TableDay:
    table = open_delta(place)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    features = set(table.protocol().reader_features or ())
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped or ("deletionVectors" in features and _has_deletions(root, table.version())):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Delta table {place.table} keeps "
            f"{'renamed columns' if mapped else 'deleted rows'} beside its files, which are read "
            "as they are: rewrite the day without (OPTIMIZE, or REORG TABLE ... APPLY (PURGE)).",
        )
    partitioned = place.day in table.metadata().partition_columns
    names = []
    for action in actions:
        if partitioned:
            value = action.get(f"partition.{place.day}")
            there = value == day or says_day(str(value), day)
        else:
            there = _may_hold(action.get(f"min.{place.day}"), action.get(f"max.{place.day}"), day)
        if there:
            names.append(urllib.parse.unquote(action["path"]))
    if not names:
        raise no_such_day(place, day)
    files = _listed(root, names, place)
    return TableDay(root, "delta", table.version(), files, day_in_files=not partitioned)


def open_delta(place: TablePlace) -> deltalake.DeltaTable:
    """Return a Delta table at its version, or its newest.

    Raises:
        NotEvaluableError: there is none, or it cannot be opened.
    """
    try:
        return deltalake.DeltaTable(place.table, version=place.version)
    except TableNotFoundError:
        raise NotEvaluableError(
            Reason.MISSING_LABELS, f"There is no Delta table at {place.table}."
        ) from None
    except (DeltaError, OSError) as error:
        said = str(error).partition("\n")[0][:200]
        version = "" if place.version is None else f" at version {place.version}"
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Delta table {place.table}{version} cannot be opened ({said}): check the address, "
            "the credentials, and that vacuum has not deleted the version.",
        ) from None


def _has_deletions(root: Lake, version: int) -> bool:
    """Whether any commit that the log still has wrote a deletion vector; a checkpoint may, too."""
    selector = fs.FileSelector("_delta_log")
    for entry in root.patiently(lambda: root.files.get_file_info(selector), "_delta_log"):
        name = entry.base_name
        if ".checkpoint" in name:
            return True
        if name.endswith(".json") and name[:20].isdigit() and int(name[:20]) <= version:
            with root.open(entry.path) as file:
                if b'"deletionVector":{' in file.read().replace(b" ", b""):
                    return True
    return False


def _iceberg_day(place: TablePlace, day: dt.date) -> TableDay:
    table = _open_iceberg(place)
    snapshot = table.current_snapshot() if place.version is None else table.snapshot_by_id(
        place.version
    )  # fmt: skip
    if snapshot is None:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The Iceberg table {place.table} has no snapshot {place.version or 'yet'}: write to "
            "it, or keep snapshots longer.",
        )
    _check_no_renamed(table, place)
    location = table.location().rstrip("/")
    names = []
    for task in _iceberg_tasks(table, place, snapshot.snapshot_id, day):
        if task.delete_files:
            raise NotEvaluableError(
                Reason.TABLE_UNSUPPORTED,
                f"The Iceberg table {place.table} keeps deleted rows beside its files, which are "
                "read as they are: compact the day (rewrite_data_files with delete-file-threshold "
                "1).",
            )
        names.append(_below(location, task.file.file_path))
    if not names:
        raise no_such_day(place, day)
    root = Lake(location)
    files = _listed(root, names, place)
    return TableDay(root, "iceberg", snapshot.snapshot_id, files, day_in_files=True)


def iceberg_files(place: TablePlace) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return where an Iceberg table lies, and its snapshot's files with their columns' bounds.

    Raises:
        NotEvaluableError: there is no such table.
    """
    table = _open_iceberg(place)
    location = table.location().rstrip("/")
    found: dict[str, dict[str, Any]] = {}
    for file in table.inspect.data_files(place.version).to_pylist():
        metrics = file["readable_metrics"] or {}
        bounds = {name: (each or {}).get("upper_bound") for name, each in metrics.items()}
        found[_below(location, file["file_path"])] = bounds
    return location, found


def _below(location: str, path: str) -> str:
    if not path.startswith(f"{location}/"):
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE,
            f"{path} lies outside of the Iceberg table's location, {location}: rewrite it there.",
        )
    return path[len(location) + 1 :]


def _open_iceberg(place: TablePlace) -> Any:
    try:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415
    except ImportError:
        raise TerminalError(
            "To read Iceberg tables, install privaudit with its extra: privaudit[iceberg]."
        ) from None
    try:
        return load_catalog(place.catalog).load_table(place.table)
    except NoSuchTableError:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The Iceberg catalogue {place.catalog} has no table {place.table}: write its name "
            "with its namespace.",
        ) from None
    except Exception as error:  # catalogues raise whatever their client does
        if not is_failure(error):
            raise
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Iceberg catalogue {place.catalog} cannot be asked ({type(error).__name__}): "
            f"describe it in .pyiceberg.yaml or PYICEBERG_CATALOG__{str(place.catalog).upper()}"
            "__URI.",
        ) from None


def _check_no_renamed(table: Any, place: TablePlace) -> None:
    """Refuse columns that older files hold under another name, or for something else."""
    names: dict[int, set[str]] = {}
    ids: dict[str, set[int]] = {}
    for schema in table.metadata.schemas:
        for each in schema.fields:
            names.setdefault(each.field_id, set()).add(each.name)
            ids.setdefault(each.name, set()).add(each.field_id)
    renamed = [name for both in names.values() if len(both) > 1 for name in both]
    renamed += [name for name, both in ids.items() if len(both) > 1]
    if renamed:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Iceberg table {place.table} has renamed the column {min(renamed)!r}, and older "
            "files keep its old name: rewrite the table, or read another.",
        )


def _iceberg_tasks(table: Any, place: TablePlace, snapshot: int, day: dt.date) -> Iterator[Any]:
    """Yield the files that may hold the day: by their partition and statistics."""
    from pyiceberg.types import DateType, StringType  # noqa: PLC0415

    try:
        kind = table.schema().find_type(place.day)
    except ValueError:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"The Iceberg table {place.table} has no column {place.day!r}: set day to the "
            "column that says it.",
        ) from None
    row_filter = "true"
    if isinstance(kind, DateType | StringType):
        # Of text that is written otherwise, all files are read and each row is asked.
        row_filter = f"{place.day} = '{day.isoformat()}'"
        if isinstance(kind, StringType):
            row_filter += f" or {place.day} = '{day:%Y%m%d}'"
    scan = table.scan(snapshot_id=snapshot, selected_fields=(place.day,))
    if row_filter != "true":
        scan = scan.filter(row_filter)
    yield from scan.plan_files()


def _listed(root: Lake, names: list[str], place: TablePlace) -> tuple[LabelFile, ...]:
    """Return files with the sizes and times that storage gives them now."""
    files = []
    names = sorted(names)
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


def _may_hold(least: Any, greatest: Any, day: dt.date) -> bool:
    """Whether a file with these statistics may hold the day; where nothing is known, yes."""
    if least is None or greatest is None:
        return True
    if isinstance(least, dt.datetime):
        wide = dt.timedelta(days=1)  # whatever the zone
        return bool(least.date() - wide <= day <= greatest.date() + wide)
    if isinstance(least, dt.date):
        return bool(least <= day <= greatest)
    if isinstance(least, str):
        return any(
            str(least) <= word <= str(greatest) for word in (day.isoformat(), f"{day:%Y%m%d}")
        )
    if isinstance(least, int):
        return bool(least <= int(f"{day:%Y%m%d}") <= greatest)
    return True

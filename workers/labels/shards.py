"""One day's labels as files, shards and units of work, and what is bad among them.

A *shard* is a file and a row group; its identity keys its random streams. A *work unit* is what
one task takes: some row groups of a large file, or many small files.

Folders of table formats are not read as plain Parquet: they also hold files of replaced and deleted
rows, or of writes that failed. Only the format's own log says which files count, so that reading
all of them counts rows twice.
"""

import bisect
import dataclasses
import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import read_footer
from workers.lake.layout import LabelFile, Lake, folder_of, is_label_file, labels_folder
from workers.lake.places import local_path

_SNAPSHOT = "write the day's snapshot as plain Parquet with {0}'s own reader, and name that folder"
_MARKS = {
    "Delta": (r"_delta_log/", "name the Delta table's own folder"),
    "Iceberg": (
        r"metadata/(?:[^/]+\.metadata\.json|version-hint\.text)$",
        "name the table by its catalogue (catalog in the settings, --catalog), or "
        + _SNAPSHOT.format("Iceberg"),
    ),
    "Hudi": (r"\.hoodie(?:/|_partition_metadata)", _SNAPSHOT.format("Hudi")),
    "Paimon": (r"snapshot/snapshot-\d+$", _SNAPSHOT.format("Paimon")),
    "DuckLake": (r"ducklake-[^/]+\.parquet$", _SNAPSHOT.format("DuckLake")),
    "Hive ACID": (
        r"(?:base_\d{7}|(?:delete_)?delta_\d{7}_\d{7}(?:_\d{4})?)(?:_v\d{7})?/",
        _SNAPSHOT.format("Hive"),
    ),
    "Spark streaming": (r"_spark_metadata/", _SNAPSHOT.format("Spark")),
}
"""Formats, by what lies in their folders and how their rows are named instead."""
_ANY = re.compile(f"(?:^|/)(?:{'|'.join(mark for mark, _ in _MARKS.values())})")
_LOGS, _MIXED = ("_delta_log", ".hoodie", "_spark_metadata"), ("metadata", "snapshot")
"""Folders beside a table's own files: those of one format's log, and those of any use."""
_PART = re.compile(r".+=.*|data|bucket-\d+")
"""Names of folders within a table."""


def refuse_table_format(lake: Lake, folder: str, listed: Iterable[LabelFile]) -> None:
    """Refuse a folder of a table format, or one within, by the names of its files.

    Raises:
        NotEvaluableError: it is one.
    """
    path, mark, query = _split(lake.uri)
    path = f"{path.rstrip('/')}/{folder}".rstrip("/")
    place = f"{path}{mark}{query}"
    for file in filter(lambda file: _ANY.search(file.name), listed):
        _check(file.name, f"{place} is the folder of")
    for above in (Lake(found + mark + query) for found in _above(path)):
        for name in _names_at(above):
            _check(name, f"{place} lies in {above.uri},")


def _check(name: str, subject: str) -> None:
    for form, (mark, remedy) in _MARKS.items():
        found = re.search(f"(?:^|/)({mark})", name)
        if found is not None:
            raise NotEvaluableError(
                Reason.TABLE_UNSUPPORTED,
                f"{subject} a table in the {form} format ({name[: found.end()]}), where files of "
                f"replaced rows also lie: {remedy}.",
            )


def _split(uri: str) -> tuple[str, str, str]:
    """Return a place's path, and the parameters of a URI."""
    local = local_path(uri)
    return uri.partition("?") if local is None else (str(local), "", "")


def _above(path: str) -> Iterator[str]:
    """Yield the folder in which a folder lies; of parts of a table also those above."""
    above, _, name = path.rpartition("/")
    while above and not above.endswith("/"):  # of s3://bucket there is none
        yield above
        above, _, name = above.rpartition("/")
        if not _PART.fullmatch(name):
            break


def _names_at(place: Lake) -> list[str]:
    """Return marks of formats at a folder; none where it may not be read."""

    def listed() -> list[str]:
        infos = place.files.get_file_info([*_LOGS, *_MIXED])
        there = [info.path for info in infos if info.type == fs.FileType.Directory]
        mixed = (fs.FileSelector(name, allow_not_found=True) for name in there if name in _MIXED)
        below = [info.path for one in mixed for info in place.files.get_file_info(one)]
        return [f"{name}/" for name in there if name in _LOGS] + below

    try:
        return place.patiently(listed, place.uri)
    except (NotEvaluableError, FileNotFoundError):
        return []


Place = tuple[str, int, int]
"""File, row group, row."""


@dataclass(frozen=True, slots=True)
class BadRecords:
    """Records that were left out, with the reasons; it adds like a tally.

    Attributes:
        counts: bad records by reason.
        first: where the first of them is.
        reason: why the first is bad.
        sentence: the same in words.
        fatal: whether no number of bad records may pass: a model gives NaN, or a file does not even
            say how many records it holds.
    """

    counts: Counter[str]
    first: Place = ("", 0, 0)
    reason: Reason | None = None
    sentence: str = ""
    fatal: bool = False

    @classmethod
    def none(cls) -> "BadRecords":
        """Return that nothing is bad, the identity of addition."""
        return cls(Counter())

    @classmethod
    def at(
        cls, place: Place, records: int, reason: Reason, sentence: str, *, fatal: bool = False
    ) -> "BadRecords":
        """Return that `records` from `place` on are bad for one reason."""
        return cls(Counter({reason.value: records}), place, reason, sentence, fatal)

    @property
    def total(self) -> int:
        """Number of bad records."""
        return self.counts.total()

    def __add__(self, other: "BadRecords") -> "BadRecords":
        """Return what both found; the first in the order of the files stays first."""
        if self.reason is None or other.reason is None:
            return self if other.reason is None else other
        counts = self.counts.copy()
        counts.update(other.counts)
        earlier = min(self, other, key=lambda part: (part.first, part.reason or ""))
        return BadRecords(
            counts, earlier.first, earlier.reason, earlier.sentence, self.fatal or other.fatal
        )

    def check(self, maximum: int) -> None:
        """Raise `NotEvaluableError` where more is bad than `maximum`, or something is fatal."""
        if self.reason is not None and (self.fatal or self.total > maximum):
            raise NotEvaluableError(self.reason, f"{self.sentence} {self.summary(maximum)}".strip())

    def summary(self, maximum: int) -> str:
        """Return the counts by reason in one sentence; empty where nothing could be counted."""
        if self.total == 0:
            return ""
        parts = [f"{reason} {count}" for reason, count in sorted(self.counts.items()) if count]
        return (
            f"Bad records: {self.total} ({', '.join(parts)}), the first in {self.first[0]}; "
            f"max_bad_records is {maximum}."
        )


WORK_UNIT_BYTES = 1 << 26
_LEAST_BYTES = WORK_UNIT_BYTES // 500  # that a file counts as: a unit has at most 500
READERS = 16  # footers are small and far away: latency, not work


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of one file, from `start` up to `stop`; up to the last where `stop` is None."""

    file: str
    start: int = 0
    stop: int | None = None

    def row_groups(self, in_file: int) -> range:
        """Return the numbers of its row groups, of a file that has so many."""
        return range(self.start, in_file if self.stop is None else self.stop)


WorkUnit = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """One day's labels as files of known sizes, divided into units of work.

    The division changes no number: streams and digests know shards only.

    Attributes:
        dataset: what the labels are called.
        day: whose they are.
        folder: in which the files lie, below the root; empty for the root itself.
        files: sorted by name.
        work_units: all of the files' row groups, each once.
        left_out: bad records that are in none of the files.
        days: where several days play, all of them; then files are named from their day's folder.
    """

    dataset: str
    day: dt.date
    folder: str
    files: tuple[LabelFile, ...]
    work_units: tuple[WorkUnit, ...]
    left_out: BadRecords = field(default_factory=BadRecords.none)
    days: tuple[dt.date, ...] = ()

    def path(self, name: str) -> str:
        """Return where a file lies below the root."""
        return f"{self.folder}/{name}" if self.folder else name

    def file(self, name: str) -> LabelFile | None:
        """Return a file as it was listed; None where it was not."""
        place = bisect.bisect_left(self.files, name, key=lambda file: file.name)
        found = self.files[place : place + 1]
        return found[0] if found and found[0].name == name else None

    def group(self, name: str) -> int:
        """Return which of the days a file is of, from 0: only records of one are matched."""
        if not self.days:
            return 0
        return [folder_of(day) for day in self.days].index(name.partition("/")[0])

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.size for file in self.files)


def find_partition(lake: Lake, dataset: str, day: dt.date) -> Partition:
    """Return the day's label files, divided into work units of about `WORK_UNIT_BYTES`.

    Only the footers of files larger than that are read.

    Raises:
        NotEvaluableError: the partition is missing or has no file.
    """
    folder = labels_folder(dataset, day)
    if not lake.exists(folder):
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"There are no complete labels of {dataset} for {day}: {folder}/_SUCCESS is missing.",
        )
    listed = lake.files_below(folder)
    refuse_table_format(lake, folder, listed)
    files = tuple(filter(is_label_file, listed))
    if not files:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The labels of {dataset} for {day} hold no rows: write {folder} again.",
        )
    return Partition(dataset, day, folder, files, divide(lake, folder, files))


def find_days(lake: Lake, dataset: str, days: tuple[dt.date, ...]) -> Partition:
    """Return the label files of several days, ascending, as one partition of the last of them.

    Raises:
        NotEvaluableError: one of the partitions is missing or has no file.
    """
    files: list[LabelFile] = []
    work_units: list[WorkUnit] = []
    for day in days:
        found = find_partition(lake, dataset, day)
        within = f"{folder_of(day)}/{{}}".format
        files += [file._replace(name=within(file.name)) for file in found.files]
        work_units += [
            tuple(dataclasses.replace(piece, file=within(piece.file)) for piece in unit)
            for unit in found.work_units
        ]
    parent = labels_folder(dataset, days[-1]).rpartition("/")[0]
    return Partition(dataset, days[-1], parent, tuple(files), tuple(work_units), days=days)


def divide(lake: Lake, folder: str, files: Sequence[LabelFile]) -> tuple[WorkUnit, ...]:
    """Return files as units of work of about `WORK_UNIT_BYTES`; large files' footers are read."""
    large = [file.name for file in files if file.size > WORK_UNIT_BYTES]
    small = [file for file in files if file.size <= WORK_UNIT_BYTES]
    with ThreadPoolExecutor(READERS) as pool:
        parts = pool.map(
            lambda name: _divide_file(lake, f"{folder}/{name}".lstrip("/"), name), large
        )
        work_units = [unit for part in parts for unit in part]
    sizes = [max(file.size, _LEAST_BYTES) for file in small]
    for first, last in runs(sizes, WORK_UNIT_BYTES):
        work_units.append(tuple(Piece(file.name) for file in small[first:last]))
    return tuple(work_units)


def runs(sizes: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield runs of neighbours that together have at most `limit`, or one alone."""
    first, held = 0, 0
    for index, size in enumerate(sizes):
        if index > first and held + size > limit:
            yield first, index
            first, held = index, 0
        held += size
    if sizes:
        yield first, len(sizes)


def work_unit_name(unit: WorkUnit) -> str:
    """Return a work unit's files and row groups in words."""
    first = unit[0]
    groups = "" if first.stop is None else f" row groups {first.start}-{first.stop - 1}"
    more = f" and {len(unit) - 1} more files" if len(unit) > 1 else ""
    return f"{first.file}{groups}{more}"


def write_labels(
    lake: Lake, dataset: str, day: dt.date, table: pa.Table, *, row_group_size: int
) -> None:
    """Write one day's labels as the lake wants them, `_SUCCESS` last."""
    folder = labels_folder(dataset, day)
    files = lake.files
    files.create_dir(folder, recursive=True)
    pq.write_table(
        table, f"{folder}/part-00000.parquet", filesystem=files, row_group_size=row_group_size
    )
    lake.complete(folder)


def _divide_file(lake: Lake, path: str, name: str) -> list[WorkUnit]:
    """Divide a large file at row groups; the reader of a damaged one finds out."""
    try:
        footer = read_footer(lake, path)
    except NotEvaluableError:
        return [(Piece(name),)]
    sizes = [group.compressed for group in footer.groups]
    return [(Piece(name, first, last),) for first, last in runs(sizes, WORK_UNIT_BYTES)] or [
        (Piece(name),)
    ]

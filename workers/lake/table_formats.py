"""Folders of table formats, which are not read as plain Parquet.

Such a folder also holds files of replaced and deleted rows, or of writes that failed. Only the
format's own log says which files count, so that reading all of them counts rows twice.
"""

import re
from collections.abc import Iterable, Iterator

from pyarrow import fs

from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import LabelFile, Lake
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

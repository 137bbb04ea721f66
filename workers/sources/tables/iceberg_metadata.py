"""Contents of an Iceberg table's metadata, as a contained child reads them (`table_child`).

pyiceberg obeys a table's own properties: `py-io-impl` names any callable of any module, and
`s3.endpoint` any host. Here every file of a table is read by `TableFiles`, which looks at no
property, and at no place but those that operators allow.
"""

import datetime as dt
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.types import (
    DateType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import days_to_date, micros_to_timestamp

from privcore.exceptions import AuditError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import Lake
from workers.sources.tables.iceberg_places import place_of, warehouse_of
from workers.sources.tables.iceberg_rest import OperatorsRestCatalog, asking, is_rest
from workers.sources.tables.table_child import answering
from workers.sources.tables.table_days import days_among

with suppress(ImportError):  # once, and not in the process of each call
    import pyiceberg.catalog.sql  # noqa: F401

_READER, _WAREHOUSE = "py-io-impl", "privaudit.warehouse"


class TableFile(InputFile):
    """One file of a table's metadata."""

    def __init__(self, location: str, root: Lake, name: str) -> None:
        super().__init__(location)
        self._root = root
        self._name = name

    def __len__(self) -> int:
        """Return how many bytes it has."""
        return len(self._root.read(self._name, at_most=limits.TABLE_FILE_BYTES))

    def exists(self) -> bool:
        """Return whether there is such a file."""
        return self._root.has(self._name)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002  # pyiceberg's
        """Return its bytes.

        Raises:
            NotEvaluableError: it is gone, too large, or cannot be read.
            TransientError: storage kept failing.
        """
        try:
            return io.BytesIO(self._root.read(self._name, at_most=limits.TABLE_FILE_BYTES))
        except FileNotFoundError:
            raise NotEvaluableError(
                Reason.LABELS_CHANGED,
                f"The Iceberg metadata file {self.location} is gone: keep the metadata of a "
                "snapshot for as long as it is audited.",
            ) from None


class TableFiles(FileIO):
    """The files of a table's metadata, read and never written; no property changes how."""

    def new_input(self, location: str) -> TableFile:
        """Return a file of the metadata.

        Raises:
            NotEvaluableError: it lies where operators allow none.
        """
        root, name = place_of(location, self.properties[_WAREHOUSE])
        return TableFile(location, Lake(root), name)

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write.

        Raises:
            NotEvaluableError: always.
        """
        raise _never_written(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete.

        Raises:
            NotEvaluableError: always.
        """
        raise _never_written(str(location))


def _never_written(location: str) -> NotEvaluableError:
    return NotEvaluableError(
        Reason.TABLE_UNSUPPORTED,
        f"Reading an Iceberg table would change {location}: an audit changes no table.",
    )


def files_of_day(
    table: str,
    catalog: str,
    properties: dict[str, Any],
    version: int | None,
    column: str | None,
    day: str,
) -> dict[str, Any]:
    """Return where an Iceberg table lies, its snapshot, and that one's files that may hold a day.

    All files without a `column` that says the day. Also the newest snapshot.

    Raises:
        NotEvaluableError: there is no such table, snapshot or column, it cannot be read, or it
            holds what is not in its files.
        TransientError: storage kept failing.
    """
    found = _open(table, catalog, properties)
    with _reading(table):
        snapshot = found.current_snapshot() if version is None else found.snapshot_by_id(version)
        if snapshot is None:
            raise NotEvaluableError(
                Reason.MISSING_LABELS,
                f"The Iceberg table {table} has no snapshot {version or 'yet'}: write to "
                "it, or keep snapshots longer.",
            )
        _check_no_renamed(found, table)
        names = []
        for task in _tasks(found, table, snapshot.snapshot_id, column, dt.date.fromisoformat(day)):
            if task.delete_files:
                raise NotEvaluableError(
                    Reason.TABLE_UNSUPPORTED,
                    f"The Iceberg table {table} keeps deleted rows beside its files, which are "
                    "read as they are: compact the day (rewrite_data_files with "
                    "delete-file-threshold 1).",
                )
            names.append(task.file.file_path)
        return {
            "location": found.location(),
            "snapshot": snapshot.snapshot_id,
            "newest": getattr(found.current_snapshot(), "snapshot_id", None),
            "files": names,
        }


def days_of_files(
    table: str, catalog: str, properties: dict[str, Any], version: int | None
) -> dict[str, Any]:
    """Return where an Iceberg table lies, and the newest days that are said of each file.

    Raises:
        NotEvaluableError: there is no such table, or it cannot be read.
        TransientError: storage kept failing.
    """
    found = _open(table, catalog, properties)
    with _reading(table):
        fields = found.schema().fields
        files = {
            task.file.file_path: [
                (name, day.isoformat())
                for name, day in days_among(_greatest(fields, task.file.upper_bounds or {}))
            ]
            for task in found.scan(snapshot_id=version).plan_files()
        }
        return {"location": found.location(), "files": files}


def _greatest(fields: Any, bounds: dict[int, bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the greatest value that a file's statistics have of each column that may say days."""
    for field in fields:
        kind, bound = field.field_type, bounds.get(field.field_id)
        if bound is None or not isinstance(kind, PrimitiveType):
            continue
        value: Any = from_bytes(kind, bound)
        if isinstance(kind, DateType):
            value = days_to_date(value)
        elif isinstance(kind, TimestampType | TimestamptzType):
            value = micros_to_timestamp(value)
        yield field.name, value


@contextmanager
def _reading(table: str) -> Iterator[None]:
    """Make one sentence of what pyiceberg raises of damaged metadata."""
    try:
        yield
    except (AuditError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # whatever damaged metadata makes it raise
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The metadata of the Iceberg table {table} is damaged ({type(error).__name__}): see "
            "who writes it, and roll the table back to a snapshot that can be read.",
        ) from None


def _open(table: str, catalog: str, properties: dict[str, Any]) -> Any:
    """Return a table whose files are read by `TableFiles`, whatever its properties say.

    A REST catalogue's own properties are not used either.
    """
    ours = {_READER: f"{__name__}.TableFiles", _WAREHOUSE: warehouse_of(properties)}
    try:
        with asking(catalog):
            load = OperatorsRestCatalog if is_rest(properties) else load_catalog
            loaded: Any = load(catalog, **properties | ours)
            loaded._load_file_io = lambda *_, **__: TableFiles(ours)  # noqa: SLF001
            try:
                return loaded.load_table(table)
            except (ValueError, ValidationError):
                with _reading(table):
                    raise
    except NoSuchTableError:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The Iceberg catalogue {catalog} has no table {table}: write its name "
            "with its namespace.",
        ) from None
    except (AuditError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # catalogues raise whatever their client does
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Iceberg catalogue {catalog} cannot be asked ({type(error).__name__}): "
            f"describe it in .pyiceberg.yaml or PYICEBERG_CATALOG__{catalog.upper()}"
            "__URI.",
        ) from None


def _check_no_renamed(found: Any, table: str) -> None:
    """Refuse columns that older files hold under another name, or for something else."""
    names: dict[int, set[str]] = {}
    ids: dict[str, set[int]] = {}
    for schema in found.metadata.schemas:
        for each in schema.fields:
            names.setdefault(each.field_id, set()).add(each.name)
            ids.setdefault(each.name, set()).add(each.field_id)
    # A table's property may give the numbers of files without any to columns of other names.
    for mapped in found.name_mapping() or ():
        names.setdefault(mapped.field_id, set()).update(mapped.names)
    renamed = [name for both in names.values() if len(both) > 1 for name in both]
    renamed += [name for name, both in ids.items() if len(both) > 1]
    if renamed:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Iceberg table {table} has renamed the column {min(renamed)!r}, and older "
            "files keep its old name: rewrite the table, or read another.",
        )


def _tasks(
    found: Any, table: str, snapshot: int, column: str | None, day: dt.date
) -> Iterator[Any]:
    """Yield the files that may hold the day: by their partition and statistics."""
    if column is None:
        yield from found.scan(snapshot_id=snapshot).plan_files()
        return
    try:
        kind = found.schema().find_type(column)
    except ValueError:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"The Iceberg table {table} has no column {column!r}: set day to the "
            "column that says it.",
        ) from None
    row_filter = "true"
    if isinstance(kind, DateType | StringType):
        # Of text that is written otherwise, all files are read and each row is asked.
        row_filter = f"{column} = '{day.isoformat()}'"
        if isinstance(kind, StringType):
            row_filter += f" or {column} = '{day:%Y%m%d}'"
    scan = found.scan(snapshot_id=snapshot, selected_fields=(column,))
    if row_filter != "true":
        scan = scan.filter(row_filter)
    yield from scan.plan_files()


answer = answering(files_of_day, days_of_files)
"""Function that the contained child calls."""

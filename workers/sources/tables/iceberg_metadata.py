"""Contents of an Iceberg table's metadata, as a contained child reads them (`table_child`).

pyiceberg obeys a table's own properties: `py-io-impl` names any callable of any module, and
`s3.endpoint` any host. Here every file of a table is read by `TableFiles`, which looks at no
property, and at no place but those that operators allow.

It obeys a REST catalogue's `config`, too: `uri` and `oauth2-server-uri` send the operator's login
to another host, `auth.impl` names any callable of any module, and `scan-planning-mode` lets the
server say which files a snapshot has. Here operators alone decide where a catalogue is and how it
is asked; it decides one thing, the prefix of its own paths.
"""

import datetime as dt
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import requests
from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType, load_catalog, rest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchTableError,
    OAuthError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO, InputFile, InputStream
from pyiceberg.table import ALWAYS_TRUE
from pyiceberg.types import DateType, StringType

from privcore.exceptions import AuditError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.layout import Lake
from workers.sources.tables.table_child import answering, place_of, warehouse_of
from workers.sources.tables.table_days import days_among

_PREFIX = "prefix"
_STALLED = (10.0, 30.0)  # seconds until a connection stands, and between two pieces of an answer
_PIECE = 1 << 20


class OneHost(requests.Session):
    """Session that follows no redirect and reads no answer above a bound."""

    def get_redirect_target(self, resp: requests.Response) -> None:  # noqa: ARG002  # requests'
        """Return that there is none: it could lead to another host, with the login."""
        return

    def send(self, request: requests.PreparedRequest, **given: Any) -> requests.Response:
        """Return the answer, read.

        Raises:
            NotEvaluableError: it is a redirect, or too large.
            requests.RequestException: there is none.
        """
        response = super().send(request, **given | {"stream": True, "timeout": _STALLED})
        with response:
            if 300 <= response.status_code < 400:  # HTTP's redirects
                raise NotEvaluableError(
                    Reason.PATH_OUTSIDE,
                    "The Iceberg catalogue redirects to another address, which is not asked: set "
                    "its uri to the address that answers.",
                )
            content = bytearray()
            for piece in response.iter_content(_PIECE):
                content += piece
                if len(content) > limits.CATALOG_BYTES:
                    raise NotEvaluableError(
                        Reason.TOO_LARGE,
                        f"The Iceberg catalogue answers with more than {limits.CATALOG_BYTES:,} "
                        "bytes: expire snapshots of the table.",
                    )
        response._content = bytes(content)  # noqa: SLF001  # as requests keeps what it has read
        response.encoding = "utf-8"  # JSON's; requests would try every encoding there is
        return response


rest.Session = OneHost  # type: ignore[attr-defined]  # of which pyiceberg makes its sessions


class OperatorsRestCatalog(RestCatalog):
    """REST catalogue with the properties of operators' settings, and none of its own."""

    def _config_headers(self, session: requests.Session) -> None:
        """Set the operator's headers, and ask for no storage login: none would be used."""
        super()._config_headers(session)
        session.headers.pop("X-Iceberg-Access-Delegation", None)

    def _fetch_config(self) -> None:
        """Ask for the catalogue's config, and take its prefix alone."""
        operators, uri = dict(self.properties), self.uri
        super()._fetch_config()
        prefix = self.properties.get(_PREFIX, "")
        if not isinstance(prefix, str):
            raise TypeError(prefix)
        self.properties, self.uri = operators | {_PREFIX: prefix}, uri

    def supports_server_side_planning(self) -> bool:
        """Return that the files of a snapshot are those of its manifests."""
        return False


AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, given: OperatorsRestCatalog(name, **given)
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

    def _refuse(self, location: Any) -> Any:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"Reading an Iceberg table would change {location}: an audit changes no table.",
        )

    new_output = delete = _refuse


def files_of_day(
    table: str,
    catalog: str,
    properties: dict[str, Any],
    version: int | None,
    column: str | None,
    day: str,
) -> dict[str, Any]:
    """Return where an Iceberg table lies, its snapshot, and that one's files that may hold a day.

    All files without a `column` that says the day.

    Raises:
        NotEvaluableError: there is no such table, snapshot or column, it cannot be read, or it
            holds what is not in its files.
        TransientError: storage kept failing.
    """
    found = _open(table, catalog, properties)
    with _reading(table):
        snapshot = _snapshot_of(found, table, version)
        _check_no_renamed(found, table)
        of_day = _of_day(found, table, column, dt.date.fromisoformat(day))
        tasks = list(found.scan(of_day, snapshot_id=snapshot).plan_files())
        if any(task.delete_files for task in tasks):
            raise NotEvaluableError(
                Reason.TABLE_UNSUPPORTED,
                f"The Iceberg table {table} keeps deleted rows beside its files, which are read as "
                "they are: compact the day (rewrite_data_files with delete-file-threshold 1).",
            )
        return {
            "location": found.location(),
            "version": snapshot,
            "files": [task.file.file_path for task in tasks],
            "said": [],
            "apart": [],
        }


def days_of_files(
    table: str, catalog: str, properties: dict[str, Any], version: int | None
) -> dict[str, Any]:
    """Return where an Iceberg table lies, and the newest days that are said of each file.

    Raises:
        NotEvaluableError: there is no such table or snapshot, or it cannot be read.
        TransientError: storage kept failing.
    """
    found = _open(table, catalog, properties)
    with _reading(table):
        files, days = [], []
        for file in found.inspect.data_files(_snapshot_of(found, table, version)).to_pylist():
            most = file["readable_metrics"].items()
            named = days_among((name, metrics["upper_bound"]) for name, metrics in most)
            files.append(file["file_path"])
            days.append([(name, day.isoformat()) for name, day in named])
        return {"location": found.location(), "partitions": [], "files": files, "days": days}


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

    A REST catalogue's own properties are not used either, and nothing that it said is repeated.
    """
    ours = {_READER: f"{__name__}.TableFiles", _WAREHOUSE: warehouse_of(properties)}
    name = f"PYICEBERG_CATALOG__{catalog.upper()}"
    try:
        loaded: Any = load_catalog(catalog, **properties | ours)
        loaded._load_file_io = lambda *_, **__: TableFiles(ours)  # noqa: SLF001
        try:
            return loaded.load_table(table)
        except (ValueError, ValidationError):
            with _reading(table):
                raise
    except (AuditError, MemoryError):
        raise
    except NoSuchTableError:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The Iceberg catalogue {catalog} has no table {table}: write its name "
            "with its namespace.",
        ) from None
    except (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError):
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Iceberg catalogue {catalog} refuses the login: set {name}__TOKEN, or "
            f"{name}__CREDENTIAL, to one that may read the table.",
        ) from None
    except (
        requests.ConnectionError,
        requests.Timeout,
        ServiceUnavailableError,
        TooManyRequestsError,
    ) as error:
        raise TransientError(
            f"The Iceberg catalogue {catalog} does not answer ({type(error).__name__}): try again, "
            f"or correct {name}__URI."
        ) from None
    except Exception as error:  # noqa: BLE001  # catalogues raise whatever their client does
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Iceberg catalogue {catalog} cannot be asked ({type(error).__name__}): "
            f"describe it in .pyiceberg.yaml or {name}__URI.",
        ) from None


def _snapshot_of(found: Any, table: str, version: int | None) -> int:
    """Return the number of a snapshot, or of the newest."""
    snapshot = found.current_snapshot() if version is None else found.snapshot_by_id(version)
    if snapshot is None:
        raise NotEvaluableError(
            Reason.MISSING_LABELS,
            f"The Iceberg table {table} has no snapshot {version or 'yet'}: write to it, or keep "
            "snapshots longer.",
        )
    return int(snapshot.snapshot_id)


def _check_no_renamed(found: Any, table: str) -> None:
    """Refuse columns that older files hold under another name, or for something else."""
    fields = [each for schema in found.metadata.schemas for each in schema.fields]
    # A table's property may give the numbers of files without any to columns of other names.
    mapped = [(each.field_id, name) for each in found.name_mapping() or () for name in each.names]
    named = {(each.field_id, each.name) for each in fields}.union(mapped)
    ids, names = (Counter(one) for one in zip(*named, strict=True))
    renamed = [name for one, name in named if ids[one] > 1 or names[name] > 1]
    if renamed:
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Iceberg table {table} has renamed the column {min(renamed)!r}, and older "
            "files keep its old name: rewrite the table, or read another.",
        )


def _of_day(found: Any, table: str, column: str | None, day: dt.date) -> str | BooleanExpression:
    """Return what partitions and statistics have to allow.

    Of columns of other kinds, and of text that is written otherwise, all files are read, and each
    row is asked.
    """
    if column is None:
        return ALWAYS_TRUE
    try:
        kind = found.schema().find_type(column)
    except ValueError:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"The Iceberg table {table} has no column {column!r}: set day to the column that says "
            "it.",
        ) from None
    if isinstance(kind, StringType):
        return f"{column} = '{day.isoformat()}' or {column} = '{day:%Y%m%d}'"
    return f"{column} = '{day.isoformat()}'" if isinstance(kind, DateType) else ALWAYS_TRUE


answer = answering(files_of_day, days_of_files)
"""Function that the contained child calls."""

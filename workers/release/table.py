"""The table behind the queries: read once, checked, and cut into cells."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import Column
from workers.contained import Contained, ContainedError
from workers.contained_child import WithBytes
from workers.lake import limits
from workers.lake.layout import read_named


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table as cells, with the schema that an analyst may know.

    Args:
        columns: the schema; numeric columns have bounds only where they were given.
        cells: shape (records, columns), in Fortran order.
        digest: of the schema and the cells, as sha256.
    """

    columns: tuple[Column, ...]
    cells: NDArray[np.int64]
    digest: str

    @property
    def records(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def index(self, name: str) -> int:
        """Return the place of the column of this name.

        Raises:
            InvalidInputError: there is none.
        """
        names = [column.name for column in self.columns]
        if name not in names:
            raise InvalidInputError("column", name, f"the table's columns are {', '.join(names)}")
        return names.index(name)


def read_frame(uri: str) -> pl.DataFrame:
    """Return the rows of a Parquet or CSV file, at a path or URI.

    A contained child reads the file, because a file of some kB may unpack to gigabytes.

    Raises:
        InvalidInputError: there is no such file, it is no plain file, it is neither, it is damaged,
            or it is larger than what is read.
        TransientError: the child went away.
    """
    name = uri.rpartition("/")[2]
    try:
        content = read_named(uri, at_most=limits.RELEASE_TABLE_BYTES)
    except OSError as error:
        raise InvalidInputError("table", name, f"it cannot be read: {_first_line(error)}") from None
    try:
        answer = _unpack(content, parquet=name.endswith(".parquet"), csv=name.endswith(".csv"))
        if isinstance(answer, WithBytes):
            # The child may have been taken over: Arrow checks what the bytes say of themselves.
            rows = pa.ipc.open_stream(answer.content).read_all()
            rows.validate(full=True)
            return pl.DataFrame(pl.from_arrow(rows))
    except ContainedError as error:
        bounds = f"{limits.RELEASE_SECONDS} seconds and {limits.RELEASE_MEMORY_BYTES >> 30} GiB"
        rule = f"it cannot be read within {bounds} (its reader {error.why}): write fewer rows"
        raise InvalidInputError("table", name, rule) from None
    except pa.ArrowException as error:  # also of numbers with more than 64 bits
        raise InvalidInputError("table", name, f"it is damaged: {_first_line(error)}") from None
    raise InvalidInputError("table", name, answer["refused"])


def unpack(content: bytes, parquet: bool, csv: bool) -> Any:  # noqa: FBT001
    """Return a table as Arrow's stream of rows, or why it is refused.

    Args:
        content: of the file.
        parquet: whether its name says that it is Parquet.
        csv: whether its name says that it is CSV.
    """
    try:
        if parquet:
            frame = pl.read_parquet(io.BytesIO(content))
        elif csv:
            header = content.split(b"\n", 1)[0]
            separator = ";" if header.count(b";") > header.count(b",") else ","
            frame = pl.read_csv(io.BytesIO(content), separator=separator)
        else:
            return {"refused": "its name ends with .parquet or .csv"}
    except pl.exceptions.PolarsError as error:
        return {"refused": f"it is damaged: {_first_line(error)}"}
    frame = frame.with_columns(pl.selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String))
    sink = io.BytesIO()
    frame.write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return WithBytes({}, sink.getvalue())


_unpack = Contained(
    f"{__name__}:{unpack.__name__}",
    seconds=limits.RELEASE_SECONDS,
    memory=limits.RELEASE_MEMORY_BYTES,
    fork=True,
)


def as_table(
    frame: pl.DataFrame,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    precision: float = 0.01,
) -> Table:
    """Return the frame as cells.

    Whole numbers and dates (days since 1970) are cells of width 1, floating-point numbers of width
    `precision`; text, truth values and categories are cells in the order of their names.

    Raises:
        InvalidInputError: no rows or columns, a missing or infinite value, a value outside its
            bounds, or a column of another type.
    """
    if not frame.height or not frame.width:
        raise InvalidInputError("table", frame.shape, "it has at least one row and one column")
    bounds = bounds or {}
    if strange := sorted(set(bounds) - set(frame.columns)):
        raise InvalidInputError("bounds", strange, "they name columns of the table")
    columns, cells = [], []
    for series in frame:
        _check_whole(series)
        column, encoded = _encoded(series, bounds.get(series.name), precision)
        columns.append(column)
        cells.append(encoded)
    return _table(tuple(columns), cells)


def _table(columns: tuple[Column, ...], cells: list[NDArray[np.int64]]) -> Table:
    array = np.asfortranarray(np.column_stack(cells))
    digest = hashlib.sha256(repr(list(columns)).encode())
    digest.update(array.tobytes(order="F"))
    return Table(columns, array, digest.hexdigest())


def _check_whole(series: pl.Series) -> None:
    if missing := series.null_count():
        rule = f"{missing} of its values are missing: fill them, or leave the column out"
        raise InvalidInputError(series.name, None, rule)


def _encoded(
    series: pl.Series, bounds: tuple[float, float] | None, precision: float
) -> tuple[Column, NDArray[np.int64]]:
    if series.dtype == pl.Date:
        series = series.to_physical()
    if series.dtype.is_integer() or series.dtype.is_float():
        width = 1.0 if series.dtype.is_integer() else precision
        column = Column.numeric(series.name, *(bounds or ()), precision=width)
        return column, column.encode(series.to_numpy())
    if series.dtype.base_type() in {pl.String, pl.Boolean, pl.Categorical, pl.Enum}:
        text = series.cast(pl.String)
        column = Column.categorical(series.name, sorted(text.unique()))
        return column, _places(text, column)
    rule = "a column holds whole or floating-point numbers, dates, text or truth values"
    raise InvalidInputError(series.name, str(series.dtype), rule)


def _places(text: pl.Series, column: Column) -> NDArray[np.int64]:
    """Return the categories' places; no array gives each row the room of the longest word."""
    places = text.cast(pl.Enum(column.categories), strict=False)
    if places.null_count():
        worst = text.filter(places.is_null())[0]
        raise InvalidInputError(column.name, worst, "it is none of the system's categories")
    return places.to_physical().cast(pl.Int64).to_numpy()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

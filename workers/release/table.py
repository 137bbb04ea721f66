"""The table behind the queries: read once, checked, and cut into cells."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms import Column
from workers.lake.layout import open_filesystem
from workers.lake.retries import patiently

_MOST_BYTES = 8 << 30


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

    Raises:
        InvalidInputError: there is no such file, it is neither, it is damaged, or it has more than
            8 GiB.
    """
    folder, _, name = uri.rpartition("/")
    files = open_filesystem(folder or ("/" if uri.startswith("/") else "."))
    try:
        if files.get_file_info(name).size and files.get_file_info(name).size > _MOST_BYTES:
            raise InvalidInputError("table", name, "a table has at most 8 GiB in one file")
        content = patiently(lambda: files.open_input_file(name).read(), name)
    except OSError as error:
        raise InvalidInputError("table", name, f"it cannot be read: {_first_line(error)}") from None
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(io.BytesIO(content))
        if name.endswith(".csv"):
            header = content.split(b"\n", 1)[0]
            separator = ";" if header.count(b";") > header.count(b",") else ","
            return pl.read_csv(io.BytesIO(content), separator=separator)
    except pl.exceptions.PolarsError as error:
        raise InvalidInputError("table", name, f"it is damaged: {_first_line(error)}") from None
    raise InvalidInputError("table", name, "its name ends with .parquet or .csv")


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


def as_columns(frame: pl.DataFrame, columns: Sequence[Column]) -> Table:
    """Return the frame as cells of given columns, which are found by name.

    Raises:
        InvalidInputError: no rows, a column that is missing, or a value that is missing or outside
            its column's domain.
    """
    if not frame.height:
        raise InvalidInputError("table", frame.shape, "it has at least one row")
    cells = []
    for column in columns:
        if column.name not in frame.columns:
            rule = f"the system answers about it: the table has {', '.join(frame.columns)}"
            raise InvalidInputError("column", column.name, rule)
        series = frame[column.name]
        _check_whole(series)
        if column.categories:
            series = series.cast(pl.String)
        elif series.dtype == pl.Date:
            series = series.to_physical()
        elif not series.dtype.is_numeric():
            raise InvalidInputError(column.name, str(series.dtype), "the system holds numbers")
        cells.append(column.encode(series.to_numpy()))
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
    if series.dtype in {pl.String, pl.Boolean, pl.Categorical} or isinstance(series.dtype, pl.Enum):
        text = series.cast(pl.String)
        column = Column.categorical(series.name, sorted(text.unique()))
        return column, column.encode(text.to_numpy())
    rule = "a column holds whole or floating-point numbers, dates, text or truth values"
    raise InvalidInputError(series.name, str(series.dtype), rule)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

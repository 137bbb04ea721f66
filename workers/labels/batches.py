"""Rows of a piece of the labels, batch by batch."""

import dataclasses
import functools
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch
from workers.labels.parquet import Footer, read_footer, read_row_group
from workers.labels.shards import READERS, Partition, Piece
from workers.lake.layout import LabelFile, Lake

_ROWS = 1 << 16


def batches_of(
    lake: Lake,
    partition: Partition,
    piece: Piece,
    footer: Footer,
    columns: Sequence[str],
    *,
    rows: int,
    encoded: Collection[str] = (),
) -> Iterator[Batch]:
    """Yield the rows of a piece in the order of the file."""
    path = partition.path(piece.file)
    for index in piece.row_groups(len(footer.groups)):
        group, start = read_row_group(lake, path, footer, index, columns), 0
        for table in group.batches(columns, rows=rows, encoded=encoded):
            yield Batch(table, path, (piece.file, index, start))
            start += table.num_rows


def distinct_values(lake: Lake, path: str, column: str, *, most: int) -> set[Any]:
    """Return the different values that a file has in a column, without nulls.

    Reading stops where there are more than `most`.

    Raises:
        NotEvaluableError: the file is damaged, or larger than what is read.
    """
    footer, found = read_footer(lake, path, [column]), set[Any]()
    kind = footer.schema().field(column).type
    if pa.types.is_nested(kind):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores the label {column!r} as {kind}: store classes as text, numbers or "
            "booleans.",
        )
    for index in range(len(footer.groups)):
        group = read_row_group(lake, path, footer, index, [column])
        # Text stays encoded: spelled out, a value that many rows share could take gigabytes.
        for table in group.batches([column], rows=_ROWS, encoded={column}):
            values = table[column].unique()[: most + 2]  # one of them may be null
            found |= {value for value in values.to_pylist() if value is not None}
            if len(found) > most:
                return found
    return found


def with_missing(
    lake: Lake, partition: Partition, footer: Footer, features: Collection[str]
) -> Footer:
    """Return a footer that also names features that only others of the day's files have.

    A file from before a feature was added holds missing values of it. One that no file has is
    another column's name, and stays an error.
    """
    there = [
        name
        for name in features
        if name not in footer.names and _some_has(lake, partition.folder, partition.files, name)
    ]
    return dataclasses.replace(footer, names=(*footer.names, *there)) if there else footer


@functools.lru_cache(maxsize=256)
def _some_has(lake: Lake, folder: str, files: tuple[LabelFile, ...], column: str) -> bool:
    """Return whether some file has a column, the newest first."""

    def has(file: LabelFile) -> bool:
        try:
            return column in read_footer(lake, f"{folder}/{file.name}".lstrip("/")).names
        except NotEvaluableError:  # its own reader says why
            return False

    newest = sorted(files, key=lambda file: file.changed_ns, reverse=True)
    with ThreadPoolExecutor(READERS) as pool:
        return any(
            any(pool.map(has, newest[start : start + READERS]))
            for start in range(0, len(newest), READERS)
        )

"""Rows of a piece of the labels, batch by batch."""

from collections.abc import Collection, Iterator, Sequence

from workers.labels.columns import Batch
from workers.labels.parquet import Footer, read_row_group
from workers.labels.shards import Partition, Piece
from workers.lake.layout import Lake


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

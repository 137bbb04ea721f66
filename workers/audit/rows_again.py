"""Whether a day's rows are those that were audited, where its files were written anew since."""

import datetime as dt
import itertools
import time
from collections.abc import Iterator

import pyarrow as pa

from privcore.exceptions import AuditError
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.batches import batches_of, with_missing
from workers.labels.parquet import read_footer
from workers.labels.row_digest import RowDigest, StoredDigest
from workers.labels.shards import Partition, find_partition
from workers.lake.layout import Lake
from workers.scan.partial_results import MOST_DIGESTED

_BATCH_ROWS = 1 << 16
_MOST_BYTES = 4 * MOST_DIGESTED
"""Size of the files that are read for all models of a night together."""
_MOST_SECONDS = 120.0
"""Likewise, of reading: small files of many row groups take long."""


class RowsAgain:
    """Days of the lake, read again at most once a night for the same columns."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._left = _MOST_BYTES
        self._spent = 0.0
        self._known: dict[tuple[str, dt.date, tuple[str, ...]], StoredDigest | None] = {}

    def same(self, dataset: str, day: dt.date, audited: str) -> bool | None:
        """Return whether a day's rows have the digest that a record keeps of them.

        None where it is not known: the record's digest cannot be read, the rows cannot, or more
        than is read in a night would have to be.
        """
        before = StoredDigest.read(audited)
        if before is None:
            return None
        key = (dataset, day, before.columns)
        if key not in self._known:
            began = time.monotonic()
            self._known[key] = self._read(*key, until=began + _MOST_SECONDS - self._spent)
            self._spent += time.monotonic() - began
        now = self._known[key]
        return None if now is None else now == before

    def _read(
        self, dataset: str, day: dt.date, columns: tuple[str, ...], *, until: float
    ) -> StoredDigest | None:
        try:
            partition = find_partition(self.lake, dataset, day)
            if partition.bytes > self._left:
                return None
            self._left -= partition.bytes
            found = RowDigest()
            for table in self._tables(partition, columns):
                if time.monotonic() > until:
                    return None
                found += RowDigest.of(table, columns)
        except (AuditError, pa.ArrowInvalid):
            return None
        return found.stored(columns)

    def _tables(self, partition: Partition, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Yield the columns of all rows; before each file a table of none.

        Raises:
            NotEvaluableError: a file lacks one of them, or cannot be read.
        """
        lake = self.lake
        for piece in itertools.chain.from_iterable(partition.work_units):
            yield pa.table({name: [] for name in columns})
            path = partition.path(piece.file)
            footer = read_footer(lake, path, columns, listed=partition.file(piece.file))
            footer = with_missing(lake, partition, footer, columns)
            if any(footer.names.count(name) != 1 for name in columns):
                raise NotEvaluableError(
                    Reason.LABELS_CHANGED, f"{path} lacks some of {columns}, or has one twice."
                )
            for batch in batches_of(lake, partition, piece, footer, columns, rows=_BATCH_ROWS):
                yield batch.table

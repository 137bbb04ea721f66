"""Store of public statements: one append-only Delta table of its own, which is the ledger, too.

It lies apart from the warehouse, so that a reader of the one need not read the other. Each row is
a statement, and what it cost. Two writers never publish at once: the table's log refuses the
second, who then reads what the first was charged. Column statistics of the text of statements are
not kept, since they would repeat the text in the table's log.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import deltalake
import polars as pl
import pyarrow as pa

from workers.lake.layout import open_filesystem
from workers.lake.probe import try_writing
from workers.publication.statement_row import NoStatementError, Statement, statement_from
from workers.warehouse.delta import (
    check_memory,
    open_table,
    readable,
    retry_commits,
    table_path,
    whole,
)

_TABLE = "statements"
_WRITER = "statements"
"""Every commit names it, so that the log refuses the second of two at once."""
_CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "position,statement_id,model,day,dataset",
}
_NAMED = ("statement_id", "model", "day", "dataset")
"""Columns that repeat what a statement says."""
_SCHEMA = pa.schema([
    pa.field("position", pa.int64()),
    pa.field("statement_id", pa.string()),
    pa.field("model", pa.string()),
    pa.field("day", pa.date32()),
    pa.field("dataset", pa.string()),
    pa.field("content", pa.string()),
])  # fmt: skip
PAGE = "index.html"
"""The page of all statements, beside their table."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The public statements at a path or an object-store URI."""

    uri: str

    def check_place(self) -> None:
        """Write, read and delete a small file where the statements are to lie."""
        table_path(self.uri, _TABLE)
        try_writing("publication.statements", self.uri)

    def all(self) -> list[Statement]:
        """Return all statements in the order of publication.

        Raises:
            NoStatementError: a row is no statement, or another one than its columns say.
        """
        stored = open_table(self._path)
        return [] if stored is None else _statements(self.uri, stored)

    def append(
        self, choose: Callable[[Sequence[Statement]], Sequence[Statement]]
    ) -> list[Statement]:
        """Append what is chosen, all of it in one commit, and return it.

        Args:
            choose: returns new statements, given all that there are. It is called again where
                another writer was first.
        """

        def once() -> list[Statement]:
            check_memory(self._path)
            stored = deltalake.DeltaTable.create(
                self._path, schema=_SCHEMA, mode="ignore", configuration=_CONFIGURATION
            )
            known = _statements(self.uri, stored)
            made = list(choose(known))
            if not made:
                return made
            rows = [
                {name: getattr(one, name) for name in _NAMED}
                | {"position": len(known) + place, "content": one.content()}
                for place, one in enumerate(made)
            ]
            named = deltalake.Transaction(_WRITER, len(known), int(time.time() * 1000))
            deltalake.write_deltalake(
                stored,
                pa.Table.from_pylist(rows, schema=_SCHEMA),
                mode="append",
                commit_properties=deltalake.CommitProperties(app_transactions=[named]),
            )
            return made

        return retry_commits(self.uri, _TABLE, once)

    def write_page(self, text: str) -> str:
        """Replace the page beside the statements, and return where it lies."""
        files = open_filesystem(self.uri)
        with files.open_output_stream(PAGE) as stream:
            stream.write(text.encode())
        return f"{self.uri.rstrip('/')}/{PAGE}"

    @property
    def _path(self) -> str:
        return table_path(self.uri, _TABLE)


def _statements(uri: str, stored: deltalake.DeltaTable) -> list[Statement]:
    def read() -> pl.DataFrame:
        with readable(uri):
            return pl.scan_delta(stored).sort("position").collect()

    rows = whole(uri, read).with_columns(pl.col("content").fill_null(""))  # no statement, either
    found = []
    for row in rows.to_dicts():
        one = statement_from(row["content"])
        other = [name for name in _NAMED if getattr(one, name) != row[name]]
        if other:
            raise NoStatementError(
                f"The statements' table holds {one.statement_id} about {one.model} on {one.day} "
                f"beside another {other[0]}, {row[other[0]]!s}: restore the table from a copy, "
                "since the audit alone writes there."
            )
        found.append(one)
    return found

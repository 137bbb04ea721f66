"""Store of public statements: one append-only Delta table of its own, with the ledger of charges.

It lies apart from the warehouse, so that a reader of the one need not read the other. Each row is
a statement, and what it cost. Two writers never publish at once: the table's log refuses the
second, who then reads what the first was charged.

The table is append-only while no statement is being erased (`Statements.erase`). Column statistics
of the text of statements are not kept, since they would repeat the text in the table's log.
"""

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from privcore.exceptions import TerminalError
from workers.lake.layout import open_filesystem
from workers.lake.probe import try_writing
from workers.publication.charges import check_charge, outside
from workers.publication.erased import (
    Entry,
    ErasedStatement,
    NoStatementError,
    Published,
    entry_of,
)
from workers.warehouse.delta import (
    check_plain,
    data_files,
    open_table,
    readable,
    retry_commits,
    rewrite,
    table_path,
    whole,
)
from workers.warehouse.log_size import check_log
from workers.warehouse.tables import without_impossible_times

_TABLE = "statements"
_WRITER = "statements"
"""Every commit names it, so that the log refuses the second of two at once."""
_APPEND_ONLY = "delta.appendOnly"
_CONFIGURATION = {
    _APPEND_ONLY: "true",
    "delta.dataSkippingStatsColumns": "position,statement_id,model,day,dataset",
}
_NAMED = ("statement_id", "model", "day", "dataset")
"""Columns that repeat what an entry says."""
_SCHEMA = pa.schema([
    pa.field("position", pa.int64()),
    pa.field("statement_id", pa.string()),
    pa.field("model", pa.string()),
    pa.field("day", pa.date32()),
    pa.field("dataset", pa.string()),
    pa.field("content", pa.string()),
])  # fmt: skip


class ErasedError(TerminalError):
    """The statement that is asked for was erased."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The public statements at a path or an object-store URI."""

    uri: str

    def check_place(self) -> None:
        """Write, read and delete a small file where the statements are to lie."""
        table_path(self.uri, _TABLE)
        try_writing("publication.statements", self.uri)

    def all(self) -> list[Entry]:
        """Return all statements and what stays of erased ones, in the order of publication."""
        stored = open_table(self._path)
        return [] if stored is None else _entries(self.uri, stored, pl.lit(value=True))

    def contents(self) -> list[str]:
        """Return the text of all entries, byte for byte, in the order of publication."""
        stored = open_table(self._path)
        if stored is None:
            return []
        return [row["content"] for row in _rows(self.uri, stored, pl.lit(value=True))]

    def of(self, model: str, day: dt.date) -> Published | None:
        """Return the statement about a model's day that counts, the first; None if there is none.

        Raises:
            ErasedError: it was erased. Later ones do not count in its place.
        """
        stored = open_table(self._path)
        if stored is None:
            return None
        asked = (pl.col("model") == model) & (pl.col("day") == day)
        found = _entries(self.uri, stored, asked)
        return not_erased(found[0]) if found else None

    def publish(
        self,
        make: Callable[[int], Published],
        *,
        dataset: str,
        same: Callable[[Entry], bool],
        epsilon_per_label: float,
        again: bool = False,
        also: frozenset[dt.date] = frozenset(),
    ) -> Published:
        """Publish a statement and charge it; one that was published already is returned as it is.

        Whether there is one already is decided by `same`, which may read nothing that labels
        change: to publish anew because labels changed would tell that they did.

        Args:
            make: returns the statement of a revision: the number of those of the same, this one
                included.
            dataset: whose labels the statement is about.
            same: whether a statement is of the same audit of the same models by the same plan.
            epsilon_per_label: what all statements in which a label takes part may cost together.
            again: publish another revision, though there is one; it is charged like the first.
            also: other days on which its labels were there (`check_charge`).

        Raises:
            OverspentError: a label would be charged more; nothing is published.
            ErasedError: the first statement of the same was erased, and `again` is not given.
        """

        def choose(known: list[Entry]) -> tuple[Published, bool]:
            alike = [one for one in known if same(one)]
            if alike and not again:
                return not_erased(alike[0]), False
            return make(len(alike) + 1), True

        return self.append(choose, dataset=dataset, epsilon_per_label=epsilon_per_label, also=also)

    def append(
        self,
        choose: Callable[[list[Entry]], tuple[Published, bool]],
        *,
        dataset: str,
        epsilon_per_label: float,
        also: frozenset[dt.date] = frozenset(),
    ) -> Published:
        """Publish what is chosen and charge what it adds, or return what was published before.

        Args:
            choose: returns an entry, given all that may share its labels, and whether it is new.
                It is called again where another writer was first.
            dataset: whose labels the night is about.
            epsilon_per_label: what all that a label takes part in may cost together.
            also: other days on which its labels were there (`check_charge`).

        Raises:
            OverspentError: a label would be charged more; nothing is published.
        """

        def once() -> Published:
            check_plain(self._path)
            check_log(self._path)
            stored = deltalake.DeltaTable.create(
                self._path, schema=_SCHEMA, mode="ignore", configuration=_CONFIGURATION
            )
            known = _entries(self.uri, stored, outside(dataset))
            made, new = choose(known)
            if not new:
                return made
            check_charge(made, known, epsilon_per_label, also=also)
            position = sum(pl.DataFrame(stored.get_add_actions(flatten=True))["num_records"])
            row = {
                "position": [position],
                "statement_id": [made.statement_id],
                "model": [made.model],
                "day": [made.day],
                "dataset": [made.dataset],
                "content": [made.content()],
            }
            deltalake.write_deltalake(
                stored,
                pa.table(row, schema=_SCHEMA),
                mode="append",
                commit_properties=_named(position),
            )
            return made

        return retry_commits(self.uri, _TABLE, once)

    def erase(
        self, statement_id: str, bury: Callable[[Published], ErasedStatement]
    ) -> ErasedStatement:
        """Put a tombstone in a statement's place, and delete every file that holds the statement.

        The steps: the table stops being append-only; one commit writes all rows anew, with the
        tombstone; older files that hold the statement are deleted; the table is append-only again.
        Each step can be repeated. A kill between two of them leaves the statement as it was, or
        its tombstone; calling this again, or `compact`, does what is left. Publishing meanwhile
        works, and repeats its commit.

        Readers of an older version of the table may miss a file and have to read again.

        Returns:
            The entry in its place; the earlier one where it was erased before.

        Raises:
            TerminalError: no such statement, or the table is damaged or cannot be written.
        """
        entry = self._entry(statement_id)
        if not isinstance(entry, ErasedStatement):
            made = bury(entry)  # first, since a key service may refuse
            entry = retry_commits(self.uri, _TABLE, lambda: self._replace(made))
        self._complete_erasures()
        return entry

    def compact(self, *, kept_days: int) -> None:
        """Put the files of many publications together; every statement stays as it is.

        What an interrupted erasure left undone is done, too.
        """

        def once() -> None:
            stored = open_table(self._path)
            if stored is not None:
                if len(data_files(stored, self._path)) > 1:
                    self._set_append_only(to=False)
                    stored = deltalake.DeltaTable(self._path)
                    rewrite(stored, _named(stored.count()))
                stored.vacuum(
                    retention_hours=24 * kept_days,
                    dry_run=False,
                    enforce_retention_duration=False,
                )
                stored.create_checkpoint()

        retry_commits(self.uri, _TABLE, once)
        self._complete_erasures()

    def _entry(self, statement_id: str) -> Entry:
        stored = open_table(self._path)
        asked = pl.col("statement_id") == statement_id
        found = [] if stored is None else _entries(self.uri, stored, asked)
        if not found:
            raise TerminalError(
                f"No statement {statement_id} was published: the public page of its model shows "
                "the ids of statements."
            )
        return found[0]

    def _set_append_only(self, *, to: bool) -> None:
        stored = deltalake.DeltaTable(self._path)
        wanted = str(to).lower()
        if stored.metadata().configuration.get(_APPEND_ONLY) != wanted:
            stored.alter.set_table_properties({_APPEND_ONLY: wanted})

    def _replace(self, made: ErasedStatement) -> ErasedStatement:
        """Write all rows anew, in one commit, with an entry in its statement's place."""
        self._set_append_only(to=False)
        stored = open_table(self._path)
        assert stored is not None  # noqa: S101
        with readable(self.uri):
            rows = pl.scan_delta(stored).sort("position").collect()
        place = pl.col("statement_id") == made.statement_id
        (content,) = rows.filter(place)["content"]
        entry = entry_of(content)
        if isinstance(entry, ErasedStatement):
            return entry  # another writer did it meanwhile
        replaced = pl.when(place).then(pl.lit(made.content())).otherwise("content")
        changed = rows.with_columns(content=replaced)
        deltalake.write_deltalake(
            deltalake.DeltaTable(self._path, version=stored.version()),
            changed.to_arrow().cast(_SCHEMA),
            mode="overwrite",
            commit_properties=_named(rows.height),
        )
        return made

    def _complete_erasures(self) -> None:
        """Delete files that hold erased statements; then make the table append-only again.

        Files of other statements and of tombstones stay: another writer may be about to commit
        them, or may just have done so.
        """
        stored = open_table(self._path)
        if stored is None:
            return
        entries = _entries(self.uri, stored, pl.lit(value=True))
        erased = {one.statement_id for one in entries if isinstance(one, ErasedStatement)}
        strange: list[str] = []
        if erased:
            used = {name.rpartition("/")[2] for name in data_files(stored, self._path)}
            strange = whole(self.uri, lambda: _delete_files(self.uri, used, erased))
        retry_commits(self.uri, _TABLE, lambda: self._set_append_only(to=True))
        if strange:
            raise TerminalError(
                f"The statements are erased, but {len(strange)} files beside them cannot be read "
                f"and may hold one, such as {strange[0][:200]!r}: look at them, and delete them."
            )

    @property
    def _path(self) -> str:
        return table_path(self.uri, _TABLE)


def _named(position: int) -> deltalake.CommitProperties:
    named = deltalake.Transaction(_WRITER, position, int(time.time() * 1000))
    return deltalake.CommitProperties(app_transactions=[named])


def not_erased(entry: Entry) -> Published:
    """Return an entry.

    Raises:
        ErasedError: it was erased.
    """
    if isinstance(entry, ErasedStatement):
        raise ErasedError(
            f"The statement {entry.statement_id} about {entry.model} on {entry.day} was erased on "
            f"{entry.erased_at:%Y-%m-%d}: {entry.reason}"
        )
    return entry


def _delete_files(uri: str, used: set[str], erased: set[str]) -> list[str]:
    """Delete data files that are not in use and hold the text of one of these statements.

    Returns:
        Files that cannot be read: another writer's, who is about to commit them, or nobody's.
    """
    files, strange = open_filesystem(uri), []
    for info in files.get_file_info(fs.FileSelector(_TABLE)):
        plain = info.type == fs.FileType.File
        if not (plain and info.base_name.endswith(".parquet")) or info.base_name in used:
            continue
        try:
            with files.open_input_file(info.path) as stream:
                rows = pq.read_table(stream, columns=["statement_id", "content"]).to_pylist()
        except pa.ArrowInvalid:
            strange.append(info.base_name)
            continue
        texts = [str(row["content"] or "") for row in rows if row["statement_id"] in erased]
        if not all(map(_is_tombstone, texts)):
            files.delete_file(info.path)
    return sorted(strange)


def _is_tombstone(text: str) -> bool:
    try:
        return isinstance(entry_of(text), ErasedStatement)
    except NoStatementError:  # it has a statement's id, and may hold what was erased
        return False


def _entries(uri: str, stored: deltalake.DeltaTable, asked: pl.Expr) -> list[Entry]:
    """Return entries, each of which is what its columns say, by which it was found.

    Raises:
        NoStatementError: one is no statement, or another one than its columns say.
    """
    found = []
    for row in _rows(uri, stored, asked):
        entry = entry_of(row["content"])
        other = [name for name in _NAMED if getattr(entry, name) != row[name]]
        if other:
            raise NoStatementError(
                f"The statements' table holds {entry.statement_id} about {entry.model} on "
                f"{entry.day} beside another {other[0]}, {row[other[0]]!s}: restore the table from "
                "a copy, since the audit alone writes there."
            )
        found.append(entry)
    return found


def _rows(uri: str, stored: deltalake.DeltaTable, asked: pl.Expr) -> list[dict[str, Any]]:
    def read() -> list[dict[str, Any]]:
        with readable(uri):
            rows = pl.scan_delta(stored).filter(asked).sort("position").collect()
        rows = rows.with_columns(pl.col("content").fill_null(""))  # no statement, either
        return without_impossible_times(rows).to_dicts()

    return whole(uri, read)

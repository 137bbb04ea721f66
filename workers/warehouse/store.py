"""The result tables, in Delta Lake: commit once, read back, as it is or as it was.

The tables of `workers.warehouse.tables` at a path or URI. No row is ever changed. A batch of audits
is committed with one write, so that its records are there whole or not at all.
"""

import contextlib
import datetime as dt
import hashlib
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Verdict
from workers.lake.layout import try_writing
from workers.warehouse.delta import open_table, readable, retry_commits, table_path, whole
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, AuditRow, NoteKind, NoteRow, Status
from workers.warehouse.table_row import AS_STORED, TableRow, typed_rows
from workers.warehouse.tables import (
    PARTS,
    STORED,
    TABLES,
    TIMES,
    as_arrow,
    as_stored,
    columns_of_audit,
    stored_schema,
    stored_without_rows,
)

Answer = TypeVar("Answer")
_CONFIGURATION = {
    # How long a log names what was added: far longer than two writers take to meet.
    "delta.setTransactionRetentionDuration": "interval 1 days",
    # A reader that opens a table reads all commits since the last checkpoint.
    "delta.checkpointInterval": "10",
}
_AFTERWARDS = deltalake.PostCommitHookProperties(
    # To look for expired logs lists all of the log; compaction does that, and no commit need.
    create_checkpoint=True,
    cleanup_expired_logs=False,
)
_SHORTEST_ID = 4
_INPUTS = (
    "method_version",
    "target_sha256",
    "proxy_sha256",
    "labels_digest",
    "target_manifest_sha256",
    "proxy_manifest_sha256",
)
REFUTES = (pl.col("status") == Status.EVALUATED) & (pl.col("verdict") == Verdict.VIOLATED)
"""Whether a record refutes what was declared for its night."""
CONFIGURED = ~pl.col("exploratory").fill_null(value=False)
"""Whether a record is of the settings' plan, and not of one that somebody chose for a run."""
COUNTED_WITH_OTHERS = (pl.col("status") == Status.EVALUATED) & CONFIGURED
"""Whether a record is counted with those of other nights and models."""
OF_COUNTED = ("audit_id", "model", "secret", "day", "significance", "status", "exploratory")
"""Columns by which nights that count are found, and what they say together."""
_ORDER = (pl.col("day"), pl.col("model"), pl.col("secret"))


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse at a path or an object-store URI: its records, and which of them is current.

    Attributes:
        uri: where its tables lie.
        as_of: read what was known then, by each row's own time; now by default. Reading only.
    """

    uri: str
    as_of: dt.datetime | None = None

    def delta(self, table: str) -> deltalake.DeltaTable | None:
        """Return a table as it is stored; None where nothing was written yet."""
        return open_table(self.path(table))

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table, empty where nothing was written yet, with every column of today."""
        row, part = TABLES[table].row, TABLES[table].part
        if part is None:
            return self._scan_stored(table).select(list(row.model_fields))
        rows = self._scan_stored("audits").filter(pl.col(part).list.len() > 0)
        of_audit = columns_of_audit(row)
        own = pl.col(part).struct
        return (
            rows.select(*of_audit, part)
            .explode(part)
            .select(*(name if name in of_audit else own.field(name) for name in row.model_fields))
        )

    def notes(self, kind: NoteKind) -> pl.LazyFrame:
        """Return the notes of one kind."""
        return self.scan("audit_notes").filter(pl.col("kind") == kind)

    def _scan_stored(self, table: str) -> pl.LazyFrame:
        """Return a table as it is stored."""
        empty = stored_without_rows(table).lazy()
        stored = self.delta(table)
        if stored is None:
            return empty
        with readable(self.uri):
            rows = pl.concat([empty, pl.scan_delta(stored)], how="diagonal_relaxed")
        return rows if self.as_of is None else rows.filter(pl.col(TIMES[table]) <= self.as_of)

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return what a query over scanned tables finds."""
        return whole(self.uri, rows.collect)

    def path(self, table: str) -> str:
        """Return where a table lies."""
        return table_path(self.uri, table)

    def retry(self, table: str, change: Callable[[], Answer]) -> Answer:
        """Return what `change` of a table returns, again and again while other writers win."""
        return retry_commits(self.uri, table, change)

    def check_place(self) -> None:
        """Write, read and delete a small file where the tables are to lie."""
        self.path("audits")  # refuses what Delta Lake cannot have in a path
        try_writing("warehouse", self.uri)

    def digest_key(self) -> bytes:
        """Return the secret under which records name the labels that were read.

        `labels_digest`, and with it `audit_id`, are on pages and in alerts. Without a key, a reader
        who knows all labels but one could try that one's values. The key follows from the random id
        (122 bits) that the table `audits` was given when it was made: who can read it can read the
        records themselves, it is on no page and in no alert, it needs no setting, and all machines
        that write to one warehouse have the same.

        Raises:
            TerminalError: the table cannot be made.
        """
        own = str(self.made_table("audits").metadata().id)
        return hashlib.sha256(f"privaudit labels {own}".encode()).digest()

    def check_exists(self) -> None:
        """Refuse to read a warehouse in which nothing was ever committed: its path is mistyped.

        Raises:
            TerminalError: no table lies there.
        """
        if all(self.delta(table) is None for table in STORED):
            raise TerminalError(
                f"There is no warehouse at {self.uri}: privaudit run or night makes it with its "
                "first audit. If there was one, check the key warehouse."
            )

    def commit(self, records: Sequence[AuditRecord]) -> tuple[bool, ...]:
        """Commit audits with one write; return of each whether it was new.

        Raises:
            TransientError: other writers kept winning.
            TerminalError: the tables cannot be written.
        """
        self.check_present()
        if not records:
            return ()
        # Opened before it is looked what there is: what others commit later meets ours in the log.
        into = self.made_table("audits")
        committed, revisions = self._look_up([record.audit for record in records])
        new: dict[str, AuditRecord] = {}
        again: list[NoteRow] = []
        now = dt.datetime.now(dt.UTC)
        for audit_id, record in ((record.audit.audit_id, record) for record in records):
            of = record.audit.model, record.audit.day
            revision = revisions[of] = 1 + revisions.get(of, 0)
            if audit_id in committed or audit_id in new:
                at = now + dt.timedelta(microseconds=len(again))  # no two have the same key
                note = NoteRow(
                    **shared(record.audit), kind=NoteKind.CONFIRMED, noted_at=at, revision=revision
                )
                again.append(note)
            else:
                audit = record.audit.model_copy(update={"revision": revision})
                new[audit_id] = seal(record.model_copy(update={"audit": audit}))
        added = self.insert("audits", as_stored(list(new.values())), into=into)
        self.insert_rows("audit_notes", again)
        outcomes = []
        for record in records:
            first = new.pop(record.audit.audit_id, None) is not None
            outcomes.append(first and record.audit.audit_id in added)
        return tuple(outcomes)

    def insert_rows(self, table: str, rows: Sequence[TableRow]) -> None:
        """Add rows that are no part of a record."""
        if rows:
            self.insert(table, as_arrow(table, rows), into=self.made_table(table))

    def made_table(self, table: str) -> deltalake.DeltaTable:
        """Return a table, made if it is missing; of two writers at once the first makes it."""
        path = self.path(table)

        def opened() -> deltalake.DeltaTable:
            with contextlib.suppress(TableNotFoundError):
                return deltalake.DeltaTable(path)
            deltalake.DeltaTable.create(
                path, schema=stored_schema(table), mode="ignore", configuration=_CONFIGURATION
            )
            return deltalake.DeltaTable(path)

        return self.retry(table, opened)

    def insert(self, table: str, rows: pa.Table, *, into: deltalake.DeltaTable) -> frozenset[str]:
        """Add rows to a table in one commit; return the audits of which rows were added here.

        Two writers of the same row meet in the table's log, which keeps the keys of both for a
        day: the later one's commit fails. It then finds what the first one added, and leaves those
        rows out. `into` is the table as it was before the caller looked for rows of the audits.
        """
        keys, attempts = list(TABLES[table].keys), itertools.count()
        own = pl.DataFrame(rows.select(keys)).lazy().with_row_index()

        def write() -> frozenset[str]:
            left = rows
            if next(attempts):  # another writer won
                into.update_incremental()
                missing = self.collect(own.join(self.scan(table), on=keys, how="anti"))
                left = rows.take(missing["index"].sort().to_arrow())
            if not left.num_rows:
                return frozenset()
            at = int(time.time() * 1000)
            once = [
                deltalake.Transaction("/".join(map(str, key.values())), 1, at)
                for key in left.select(keys).to_pylist()
            ]
            deltalake.write_deltalake(
                into,
                left,
                mode="append",
                schema_mode="merge",
                commit_properties=deltalake.CommitProperties(app_transactions=once),
                post_commithook_properties=_AFTERWARDS,
            )
            return frozenset(left["audit_id"].to_pylist())

        return self.retry(table, write)

    def _look_up(
        self, audits: Sequence[AuditRow]
    ) -> tuple[set[str], dict[tuple[str, dt.date], int]]:
        """Return the ids of the models' and days' audits, and the numbers of the last commits.

        An audit has one model and day: its id is a digest of them, too.
        """
        days, models = {audit.day for audit in audits}, {audit.model for audit in audits}
        found = self.collect(
            self.scan("audits")
            .filter(pl.col("day").is_in(list(days)) & pl.col("model").is_in(list(models)))
            .select("audit_id", "model", "day", "revision")
        )
        again = self.notes(NoteKind.CONFIRMED).select("audit_id", "revision")
        again = again.join(found.lazy().drop("revision"), on="audit_id").select(found.columns)
        number = pl.max_horizontal(pl.len(), pl.col("revision").max())
        every = pl.concat([found.lazy(), again]).group_by("model", "day").agg(number)
        last = {(model, day): revision for model, day, revision in self.collect(every).iter_rows()}
        return set(found["audit_id"]), last

    def check_present(self) -> None:
        """Refuse to write to a warehouse as of a past time."""
        if self.as_of is not None:
            raise TerminalError(
                "A warehouse as of a past time is only read: commit to the present."
            )

    def withdraw(self, audit_id: str, why: str) -> NoteRow:
        """Take a committed audit back, and return how: it is never the current record again.

        Nothing is deleted; the withdrawal is a record of its own. The same audit committed again
        stays withdrawn, since it would be the same mistake.

        Raises:
            TerminalError: there is no such audit, it is withdrawn already, or `why` is empty.
        """
        self.check_present()
        if not why.strip():
            raise TerminalError("Say why the audit is withdrawn: --why must not be empty.")
        audit = self.record(audit_id).audit
        withdrawn = self.withdrawn([audit_id]).get(audit_id)
        if withdrawn is not None:
            raise TerminalError(
                f"The audit {audit_id} was withdrawn on {withdrawn.noted_at:%Y-%m-%d %H:%M} "
                f"UTC: {withdrawn.why}"
            )
        now = dt.datetime.now(dt.UTC)
        row = NoteRow(**shared(audit), kind=NoteKind.WITHDRAWN, noted_at=now, why=why.strip())
        self.insert_rows("audit_notes", (row,))
        return row

    def withdrawn(self, audit_ids: Iterable[str]) -> dict[str, NoteRow]:
        """Return those of the audits that were withdrawn, each with how."""
        asked = self.notes(NoteKind.WITHDRAWN).filter(pl.col("audit_id").is_in(list(audit_ids)))
        return {row.audit_id: row for row in typed_rows(NoteRow, self.collect(asked))}

    def whole_id(self, begins: str) -> str:
        """Return the one audit's id that begins so.

        Raises:
            TerminalError: none does, several do, or it is too short to be meant.
        """
        if len(begins) < _SHORTEST_ID:
            raise TerminalError(
                f"{begins!r} is too short: give at least {_SHORTEST_ID} characters of an audit's "
                "id."
            )
        known = self.scan("audits").filter(pl.col("audit_id").str.starts_with(begins))
        found = self.collect(known.select("audit_id", "model", "day").sort("day", "model"))
        if found.height == 1:
            return str(found["audit_id"][0])
        if not found.height:
            raise TerminalError(
                f"The warehouse has no audit whose id begins with {begins!r}: privaudit show --all "
                "and the report give the ids."
            )
        some = [f"{one} ({model}, {day})" for one, model, day in found.head(3).iter_rows()]
        raise TerminalError(
            f"{found.height} audit ids begin with {begins!r}, for example {', '.join(some)}: give "
            "more digits of the one that you mean."
        )

    def record(self, audit_id: str) -> AuditRecord:
        """Return an audit's record, with all its parts, as it is stored.

        Raises:
            TerminalError: there is none.
        """
        for content in self.contents([audit_id]):
            return AuditRecord.model_validate(content, context=AS_STORED)
        raise TerminalError(
            f"The warehouse has no audit {audit_id!r}: `privaudit show --all --json` and the "
            "report give the ids."
        )

    def contents(self, audit_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what is stored of some audits, by id: a record's fields, not yet validated."""
        asked = pl.col("audit_id").is_in(audit_ids)
        found = self.collect(self._scan_stored("audits").filter(asked).sort("audit_id"))
        for row in found.iter_rows(named=True):
            content: dict[str, Any] = {"audit": {name: row[name] for name in AuditRow.model_fields}}
            for table, part in PARTS.items():
                of_audit = {name: row[name] for name in columns_of_audit(TABLES[table].row)}
                content[part] = [of_audit | one for one in row[part] or ()]
            yield content

    def last_audits(self) -> pl.DataFrame:
        """Return id, model, secret and day of the last current audit of each model and secret."""
        known = self.current(every_secret=True, columns=("audit_id", "model", "secret", "day"))
        return known.sort("day").unique(("model", "secret"), keep="last", maintain_order=True)

    def current(
        self,
        *,
        every_secret: bool = False,
        days: Collection[dt.date] | None = None,
        models: pl.Series | None = None,
        columns: Sequence[str] | None = None,
        in_order: bool = True,
    ) -> pl.DataFrame:
        """Return the current record of every model and day, ordered by day and model.

        Those of labels; with `every_secret` also the current one of each other secret. Of some
        days, models or columns alone where these are given. To order years of whole records
        takes as much memory again.

        It is the latest that came to figures, or the latest of all where none did: a rerun that
        could not be evaluated (its labels have expired, say) takes no verdict back. The latest is
        the one that was last committed or confirmed, whatever the clocks said then. But of all
        audits of the same inputs by the same method the first counts, so that asking again, with
        another seed or another plan, turns no verdict; and an exploratory one counts only where
        there is no other. One that refutes counts before later ones of other inputs by the same
        method: labels that are rewritten, or another checkpoint, take no refutation back. What was
        withdrawn is passed over.
        """
        audits = self.scan("audits")
        if days is not None:
            audits = audits.filter(pl.col("day").is_in(list(days)))
        if models is not None:
            audits = audits.filter(pl.col("model").is_in(models.implode()))
        latest = self._latest(audits)
        if not every_secret:
            latest = latest.filter(pl.col("secret") == "label")
        ordered = latest.sort(_ORDER) if in_order else latest
        return self.collect(ordered if columns is None else ordered.select(columns))

    def first_audits(self, models: pl.Series) -> pl.DataFrame:
        """Return the first audit of each model, day and secret that has several with figures.

        One for each version of the method, exploratory and withdrawn ones left out, with the
        columns `audit_id`, `model`, `day`, `secret` and `method_version`.
        """
        key = ("model", "day", "secret")
        audits = self._not_withdrawn(self.scan("audits")).filter(
            pl.col("model").is_in(models.implode()),
            pl.col("day").is_not_null(),
            COUNTED_WITH_OTHERS,
        )
        known = self.collect(audits.select(key))
        several = known.filter(known.is_duplicated()).unique()
        return self.collect(
            audits.join(several.lazy(), on=key, how="semi")
            .sort("revision", "recorded_at", "audit_id")
            .unique((*key, "method_version"), keep="first", maintain_order=True)
            .select("audit_id", *key, "method_version")
        )

    def audits_of_target(self, sha256: str) -> pl.DataFrame:
        """Return the audits of a model file that count or refute, of every secret.

        Those that `current` would have were they all there are, so that a checkpoint that another
        one replaced is still known by what was said of it; and every configured one that refutes
        what was declared. Of audits of the same inputs the first speaks, as in `current`; but other
        labels, or another declaration, take no refutation back. Withdrawing does.
        """
        kept = self._not_withdrawn(self.scan("audits").filter(pl.col("target_sha256") == sha256))
        refuting = self._first_of_inputs(kept).filter(REFUTES, pl.col("configured"))
        counting = pl.concat([some.select("audit_id") for some in (self._latest(kept), refuting)])
        ids = self.collect(counting)["audit_id"]
        return self.collect(kept.filter(pl.col("audit_id").is_in(ids.implode())).sort(_ORDER))

    def _not_withdrawn(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        # A filter goes through the rows as they are read; a join would hold them twice.
        withdrawn = self.collect(self.notes(NoteKind.WITHDRAWN).select("audit_id"))["audit_id"]
        return audits.filter(~pl.col("audit_id").is_in(withdrawn.implode()))

    def _latest(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        """Return the current audit of each model, day and secret, in no order.

        Most have one audit, which is it: only where there are several are their inputs compared.
        """
        key = ("model", "day", "of")
        kept = self._not_withdrawn(audits)
        known = self.collect(kept.select("audit_id", "model", "day", of="secret"))
        several = known.filter(known.select(key).is_duplicated())["audit_id"]
        if several.len():
            rivals = kept.filter(pl.col("audit_id").is_in(several.implode()))
            chosen = self.collect(self._chosen(rivals))["audit_id"]
            passed_over = several.filter(~several.is_in(chosen.implode()))
            kept = kept.filter(~pl.col("audit_id").is_in(passed_over.implode()))
        return kept

    def _chosen(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        """Return the id of the current audit of each model, day and secret."""
        key, late = ("model", "day", "of"), ("latest_revision", "latest_seen", "audit_id")
        come_to = ("configured", "evaluated")
        newest = pl.col("method_version").sort_by(*come_to, *late).last().over(key)
        refutes = REFUTES & pl.col("configured") & (pl.col("method_version") == newest)
        return (
            self._first_of_inputs(audits)
            .with_columns(refutes=refutes)
            .sort(*come_to, "refutes", *late)
            .unique(key, keep="last", maintain_order=True)
            .select("audit_id")
        )

    def _first_of_inputs(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        """Return the first audit of each inputs, with the columns that `_chosen` sorts by."""
        unknown = ~pl.col("evaluated") | pl.col("labels_digest").is_null()
        same = ("model", "day", "of", "configured", *_INPUTS, "alone")
        return (
            self._with_order(audits)
            .with_columns(alone=pl.when(unknown).then(pl.col("audit_id")))
            # The first of the same inputs stands for all of these, and is as late as the last.
            .sort("revision", "recorded_at", "audit_id")
            .with_columns(
                pl.col("latest_revision").max().over(same), pl.col("latest_seen").max().over(same)
            )
            .unique(same, keep="first", maintain_order=True)
        )

    def _with_order(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        """Return audits with what they came to, and when they were last committed or confirmed."""
        confirmed = (
            self.notes(NoteKind.CONFIRMED)
            .group_by("audit_id")
            .agg(confirmed_at=pl.col("noted_at").max(), confirmed_revision=pl.col("revision").max())
        )
        return audits.join(confirmed, on="audit_id", how="left").with_columns(
            of="secret",
            evaluated=pl.col("status") == Status.EVALUATED,
            configured=CONFIGURED,
            latest_revision=pl.max_horizontal("revision", "confirmed_revision"),
            latest_seen=pl.max_horizontal("recorded_at", "confirmed_at"),
        )


def shared(audit: AuditRow) -> dict[str, Any]:
    """Return what a row about an audit carries of it."""
    return {name: getattr(audit, name) for name in TableRow.model_fields}

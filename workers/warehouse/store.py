"""The result tables, in Delta Lake: commit once, read back, as it is or as it was.

The tables of `workers.warehouse.tables` at a path or URI. No row is ever changed
(`workers.warehouse.commit`).
"""

import datetime as dt
import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Verdict
from workers.lake.layout import try_writing
from workers.warehouse.commit import StoredTables, shared
from workers.warehouse.schema import AuditRecord, AuditRow, NoteKind, NoteRow, Status
from workers.warehouse.table_row import AS_STORED
from workers.warehouse.tables import PARTS, STORED, TABLES, columns_of_audit

Answer = TypeVar("Answer")
_NAMED = 3
"""The most audits that are named where an id's beginning fits several."""
SHORTEST_ID = 4
"""Characters of an id that must be given."""
INPUT_COLUMNS = (
    "method_version",
    "target_sha256",
    "proxy_sha256",
    "labels_digest",
    "target_manifest_sha256",
    "proxy_manifest_sha256",
)
"""Columns of an audit's inputs, and of its method."""
REFUTES = (pl.col("status") == Status.EVALUATED) & (pl.col("verdict") == Verdict.VIOLATED)
"""Whether a record refutes what was declared for its night."""
CONFIGURED = ~pl.col("exploratory").fill_null(value=False)
"""Whether a record is of the settings' plan, and not of one that somebody chose for a run."""
COUNTED_WITH_OTHERS = (pl.col("status") == Status.EVALUATED) & CONFIGURED
"""Whether a record is counted with those of other nights and models."""
_ORDER = (pl.col("day"), pl.col("model"), pl.col("secret"))


@dataclass(frozen=True, slots=True)
class Warehouse(StoredTables):
    """A warehouse at a path or an object-store URI: its records, and which of them is current."""

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

    def commit(self, record: AuditRecord) -> bool:
        """Commit an audit; whether it was new. The same audit twice leaves one record.

        What is committed carries its digest. An audit that is there already leaves a confirmation,
        which makes it current again if another came between.

        Raises:
            TransientError: other writers kept winning.
            TerminalError: the record cannot be stored, or the tables cannot be written.
        """
        (new,) = self.commit_all([record])
        if isinstance(new, TerminalError):
            raise new
        return new

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
        withdrawn = self.withdrawal(audit_id)
        if withdrawn is not None:
            raise TerminalError(
                f"The audit {audit_id} was withdrawn on {withdrawn.noted_at:%Y-%m-%d %H:%M} "
                f"UTC: {withdrawn.why}"
            )
        now = dt.datetime.now(dt.UTC)
        row = NoteRow(**shared(audit), kind=NoteKind.WITHDRAWN, noted_at=now, why=why.strip())
        self.insert_rows("audit_notes", (row,))
        return row

    def withdrawal(self, audit_id: str) -> NoteRow | None:
        """Return how an audit was withdrawn, None where it was not."""
        asked = self.notes(NoteKind.WITHDRAWN).filter(pl.col("audit_id") == audit_id)
        found = self.collect(asked).to_dicts()
        return NoteRow.model_validate(found[0]) if found else None

    def withdrawn(self, audit_ids: Iterable[str]) -> set[str]:
        """Return which of the audits were withdrawn."""
        asked = pl.col("audit_id").is_in(list(audit_ids))
        found = self.notes(NoteKind.WITHDRAWN).filter(asked).select("audit_id")
        return set(self.collect(found)["audit_id"])

    def has(self, audit_id: str) -> bool:
        """Return whether an audit is committed."""
        found = self.scan("audits").filter(pl.col("audit_id") == audit_id)
        return bool(self.collect(found.select("audit_id")).height)

    def whole_id(self, begins: str) -> str:
        """Return the one audit's id that begins so.

        Raises:
            TerminalError: none does, several do, or it is too short to be meant.
        """
        if len(begins) < SHORTEST_ID:
            raise TerminalError(
                f"{begins!r} is too short: give at least {SHORTEST_ID} characters of an audit's id."
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
        some = [f"{one} ({model}, {day})" for one, model, day in found.head(_NAMED).iter_rows()]
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
        same = ("model", "day", "of", "configured", *INPUT_COLUMNS, "alone")
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

"""The result tables, in Delta Lake: commit once, read back, as it is or as it was.

The tables of `workers.warehouse.tables` at a path or URI. One task commits an audit; its row in
`audits` is written last, so an audit exists when, and only when, all of it does. No row
is ever changed.
"""

import datetime as dt
import pathlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import deltalake
import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from privcore.exceptions import TerminalError, TransientError
from workers.lake.retries import check_uri
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, ConfirmationRow, Status, TableRow
from workers.warehouse.tables import PARTS, TABLES, arrow_schema

Answer = TypeVar("Answer")
_ATTEMPTS = 20
_NAMES = ("audit_id", "confirmed_at")
"""Keys that name what one commit adds."""
_CONFIGURATION = {"delta.setTransactionRetentionDuration": "interval 30 days"}
"""How long a table's log names what was added: far longer than an audit takes."""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse at a path or an object-store URI.

    Attributes:
        uri: where it lies.
        as_of: read what was known then, by each row's own time; now by default. Reading only.
        by_log: let the tables' commit logs say what was known then, instead of the rows: an
            independent witness, as far back as the logs and files are kept (`privaudit compact`).
    """

    uri: str
    as_of: dt.datetime | None = None
    by_log: bool = False

    def commit(self, record: AuditRecord) -> bool:
        """Commit an audit; whether it was new. The same audit twice leaves one record.

        What is committed carries its digest. An audit that is there already leaves a confirmation,
        which makes it current again if another came between.

        Raises:
            TransientError: other writers kept winning.
        """
        if self.as_of is not None:
            raise TerminalError(
                "A warehouse as of a past time is only read: commit to the present."
            )
        if self.has(record.audit.audit_id):
            shared = {name: getattr(record.audit, name) for name in TableRow.model_fields}
            again = ConfirmationRow(**shared, confirmed_at=dt.datetime.now(dt.UTC))
            self._insert("audit_confirmations", (again,))
            return False
        sealed = seal(record)
        for table, part in PARTS.items():
            self._insert(table, getattr(sealed, part))
        return self._insert("audits", (sealed.audit,))

    def has(self, audit_id: str) -> bool:
        """Whether an audit is committed."""
        found = self.scan("audits").filter(pl.col("audit_id") == audit_id).select(pl.len())
        return bool(found.collect().item())

    def record(self, audit_id: str) -> AuditRecord:
        """Return an audit's record, from all tables.

        Raises:
            TerminalError: there is none.
        """

        def rows(table: str) -> list[dict[str, Any]]:
            return self.scan(table).filter(pl.col("audit_id") == audit_id).collect().to_dicts()

        audits = rows("audits")
        if not audits:
            raise TerminalError(
                f"The warehouse has no audit {audit_id!r}: `privaudit show --all --json` and the "
                "report give the ids."
            )
        parts = {part: rows(table) for table, part in PARTS.items()}
        return AuditRecord.model_validate({"audit": audits[0]} | parts)

    def delta(self, table: str) -> deltalake.DeltaTable | None:
        """Return a table as it is stored; None where nothing was written yet (or by then).

        Raises:
            TerminalError: its log does not reach back as far as was asked.
        """
        try:
            stored = deltalake.DeltaTable(self.path(table))
        except TableNotFoundError:
            return None
        if not self.by_log or self.as_of is None:
            return stored
        # By what each commit says of itself: a copied warehouse has new times on its files.
        commits = sorted((commit["version"], commit["timestamp"]) for commit in stored.history())
        known = [version for version, at in commits if at <= self.as_of.timestamp() * 1000]
        if known:
            stored.load_as_version(known[-1])
            return stored
        if commits[0][0] == 0:
            return None
        reached = dt.datetime.fromtimestamp(commits[0][1] / 1000, dt.UTC)
        raise TerminalError(
            f"The log of {table} reaches back to {reached:%Y-%m-%dT%H:%M}, not to "
            f"{self.as_of:%Y-%m-%dT%H:%M}: leave out --by-log, the rows know their own times."
        )

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table, empty where nothing was written yet, with every column of today."""
        empty = pl.DataFrame(arrow_schema(TABLES[table].row).empty_table()).lazy()
        stored = self.delta(table)
        if stored is None:
            return empty
        rows = pl.concat([empty, pl.scan_delta(stored)], how="diagonal_relaxed")
        if self.as_of is None or self.by_log:
            return rows
        if table == "audits":
            return rows.filter(pl.col("recorded_at") <= self.as_of)
        if table == "audit_confirmations":
            return rows.filter(pl.col("confirmed_at") <= self.as_of)
        return rows.join(self.scan("audits").select("audit_id"), on="audit_id", how="semi")

    def current(self) -> pl.DataFrame:
        """Return the current record of every model and day, ordered by day and model.

        It is the latest that came to figures, or the latest of all where none did: a rerun that
        could not be evaluated (its labels have expired, say) takes no verdict back. The latest is
        the one that was last committed or confirmed.
        """
        return self._latest(self.scan("audits")).collect()

    def previous_fraction(self, model: str, day: dt.date) -> float | None:
        """Return the guess fraction that was best on the last evaluated day before `day`."""
        earlier = self.scan("audits").filter((pl.col("model") == model) & (pl.col("day") < day))
        known = self._latest(earlier).filter(pl.col("best_fraction").is_not_null())
        found = known.select("best_fraction").tail(1).collect()
        return found.item() if found.height else None

    def path(self, table: str) -> str:
        """Return where a table lies.

        Raises:
            TerminalError: the warehouse's URI holds a credential.
        """
        remote = "://" in self.uri
        root = check_uri(self.uri) if remote else str(pathlib.Path(self.uri).absolute())
        return f"{root.rstrip('/')}/{table}"

    def retry(self, table: str, change: Callable[[], Answer]) -> Answer:
        """Return what `change` of a table returns, again and again while other writers win.

        Raises:
            TransientError: they kept winning.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return change()
            except CommitFailedError:
                time.sleep(0.05 * (attempt + 1))
        raise TransientError(
            f"Other writers kept winning the table {table} for {_ATTEMPTS} attempts: try again."
        )

    def _latest(self, audits: pl.LazyFrame) -> pl.LazyFrame:
        """Return one audit of each model and day, the current one, ordered by day and model."""
        confirmed = (
            self.scan("audit_confirmations").group_by("audit_id").agg(pl.col("confirmed_at").max())
        )
        evaluated = pl.col("status") == Status.EVALUATED
        seen = pl.max_horizontal("recorded_at", "confirmed_at")
        return (
            audits.join(confirmed, on="audit_id", how="left")
            .sort(evaluated, seen, "audit_id")
            .unique(["model", "day"], keep="last", maintain_order=True)
            .drop("confirmed_at")
            .sort("day", "model")
        )

    def _insert(self, table: str, rows: tuple[TableRow, ...]) -> bool:
        """Add rows of one audit that are not there yet; whether any were new.

        What is added names the audit in the table's log, where it is found without reading rows,
        and where two writers of the same audit meet: the later one looks at what is there.
        """
        if not rows:
            return False
        schema, keys = arrow_schema(TABLES[table].row), TABLES[table].keys
        # Without the descriptions: Delta refuses a column whose description has changed since.
        bare = pa.schema(field.remove_metadata() for field in schema)
        source = pa.Table.from_pylist([row.model_dump() for row in rows], schema=bare)
        name = "/".join(str(getattr(rows[0], key)) for key in keys if key in _NAMES)

        def insert() -> bool:
            stored = deltalake.DeltaTable.create(
                self.path(table), schema=schema, mode="ignore", configuration=_CONFIGURATION
            )
            if stored.transaction_version(name) is not None:
                return _merge(stored, source, keys)
            once = deltalake.Transaction(name, 1, int(time.time() * 1000))
            deltalake.write_deltalake(
                stored,
                source,
                mode="append",
                schema_mode="merge",
                commit_properties=deltalake.CommitProperties(app_transactions=[once]),
            )
            return True

        return self.retry(table, insert)


def _merge(stored: deltalake.DeltaTable, source: pa.Table, keys: tuple[str, ...]) -> bool:
    """Insert the rows whose keys are not there: what an earlier attempt did not come to."""
    # Null keys (a promise without a parameter) match each other here, unlike in SQL. The audit is
    # named, since what is compared with a constant lets whole files be passed over.
    same = [f'(s."{key}" is not distinct from t."{key}")' for key in keys]
    audit_id = source["audit_id"][0].as_py()
    merge = stored.merge(
        source,
        predicate=" and ".join([f"t.audit_id = '{audit_id}'", *same]),
        source_alias="s",
        target_alias="t",
        merge_schema=True,
    ).when_not_matched_insert_all()
    return bool(merge.execute()["num_target_rows_inserted"] > 0)

"""The result tables, in Delta Lake: commit once, read back.

`audits`, `audit_bounds` and `audit_promises` at a path or URI. One task commits an audit; its row
in `audits` is written last, so an audit exists when, and only when, all of it does.
"""

import datetime as dt
import pathlib
import time
import types
import typing
from dataclasses import dataclass

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from privcore.exceptions import TerminalError, TransientError
from workers.records import (
    AuditRecord,
    AuditRow,
    BoundRow,
    PromiseRow,
    ReliabilityRow,
    Row,
    ScoreRow,
    SliceRow,
    Status,
    WealthRow,
)

TABLES: dict[str, tuple[type[Row], tuple[str, ...]]] = {
    "audit_bounds": (BoundRow, ("audit_id", "arm", "family", "fraction")),
    "audit_wealth": (WealthRow, ("audit_id",)),
    "audit_promises": (PromiseRow, ("audit_id", "guarantee", "quantity", "parameter")),
    "audit_slices": (SliceRow, ("audit_id", "column", "value")),
    "audit_reliability": (ReliabilityRow, ("audit_id", "role", "bin")),
    "audit_scores": (ScoreRow, ("audit_id", "arm", "bit", "lower")),
    "audits": (AuditRow, ("audit_id",)),
}
_ATTEMPTS = 20
_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    dt.date: pa.date32(),
    tuple[float, ...]: pa.list_(pa.float64()),
    dt.datetime: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse at a path or an object-store URI."""

    uri: str

    def commit(self, record: AuditRecord) -> bool:
        """Commit an audit; whether it was new. The same audit twice leaves one record.

        Raises:
            TransientError: other writers kept winning.
        """
        if self.has(record.audit.audit_id):
            return False
        self._insert("audit_bounds", record.bounds)
        self._insert("audit_wealth", record.wealth)
        self._insert("audit_promises", record.promises)
        self._insert("audit_slices", record.slices)
        self._insert("audit_reliability", record.reliability)
        self._insert("audit_scores", record.scores)
        return self._insert("audits", (record.audit,))

    def has(self, audit_id: str) -> bool:
        """Whether an audit is committed."""
        found = self.scan("audits").filter(pl.col("audit_id") == audit_id).select(pl.len())
        return bool(found.collect().item())

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table, empty where nothing was written yet, with every column of today."""
        schema = arrow_schema(TABLES[table][0])
        empty = pl.DataFrame(schema.empty_table()).lazy()
        try:
            delta = deltalake.DeltaTable(self._path(table))
        except TableNotFoundError:
            return empty
        return pl.concat([empty, pl.scan_delta(delta)], how="diagonal_relaxed")

    def current(self) -> pl.DataFrame:
        """Return the current record of every model and day, ordered by day and model.

        It is the latest that came to figures, or the latest of all where none did: a rerun that
        could not be evaluated (its labels have expired, say) takes no verdict back.
        """
        evaluated = pl.col("status") == Status.EVALUATED
        return (
            self.scan("audits")
            .sort(evaluated, "recorded_at", "audit_id")
            .unique(["model", "day"], keep="last", maintain_order=True)
            .sort("day", "model")
            .collect()
        )

    def previous_fraction(self, model: str, day: dt.date) -> float | None:
        """Return the guess fraction that was best on the last evaluated day before `day`."""
        earlier = self.current().filter(
            (pl.col("model") == model)
            & (pl.col("day") < day)
            & pl.col("best_fraction").is_not_null()
        )
        return earlier["best_fraction"][-1] if earlier.height else None

    def sql(self, query: str) -> pl.DataFrame:
        """Return what DuckDB answers over the three tables.

        Raises:
            TerminalError: it cannot answer; the sentence gives DuckDB's reason.
        """
        connection = duckdb.connect()
        for table in TABLES:
            connection.register(table, self.scan(table).collect().to_arrow())
        try:
            relation = connection.sql(query)
            answer: pl.DataFrame | None = None if relation is None else relation.pl()
        except duckdb.Error as error:
            why = " ".join(str(error).partition("\n\nLINE")[0].split())
            raise TerminalError(f"DuckDB cannot answer the query: {why}") from None
        if answer is None:
            raise TerminalError("The query returns no table: ask for one with select.")
        return answer

    def _path(self, table: str) -> str:
        root = self.uri if "://" in self.uri else str(pathlib.Path(self.uri).absolute())
        return f"{root.rstrip('/')}/{table}"

    def _insert(self, table: str, rows: tuple[Row, ...]) -> bool:
        if not rows:
            return False
        kind, keys = TABLES[table]
        schema = arrow_schema(kind)
        source = pa.Table.from_pylist([row.model_dump() for row in rows], schema=schema)
        # Null keys (a promise without a parameter) match each other here, unlike in SQL.
        same = " and ".join(f"(s.{key} is not distinct from t.{key})" for key in keys)
        for attempt in range(_ATTEMPTS):
            try:
                delta = deltalake.DeltaTable.create(self._path(table), schema=schema, mode="ignore")
                merge = delta.merge(
                    source, predicate=same, source_alias="s", target_alias="t", merge_schema=True
                ).when_not_matched_insert_all()
                inserted: int = merge.execute()["num_target_rows_inserted"]
            except CommitFailedError:
                time.sleep(0.05 * (attempt + 1))
            else:
                return inserted > 0
        raise TransientError(
            f"Other writers kept winning the table {table} for {_ATTEMPTS} attempts: try again."
        )


def arrow_schema(kind: type[Row]) -> pa.Schema:
    """Return a table's columns as Arrow types."""
    fields = []
    for name, field in kind.model_fields.items():
        hint = field.annotation
        if isinstance(hint, types.UnionType):
            hint = next(part for part in typing.get_args(hint) if part is not type(None))
        base = next(known for known in _ARROW if hint == known or _is_word(hint, known))
        fields.append(pa.field(name, _ARROW[base], metadata={"comment": field.description or ""}))
    return pa.schema(fields)


def _is_word(hint: object, known: type) -> bool:
    return known is str and isinstance(hint, type) and issubclass(hint, str)

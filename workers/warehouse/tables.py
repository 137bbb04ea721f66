"""The warehouse's tables: which rows they hold, their keys, and their Arrow types.

A record is one row of `audits`. The rows of its parts lie in that row, each part in a column that
is a list; `Warehouse.scan` and SQL give them as tables of their own.
"""

import datetime as dt
import functools
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from workers.warehouse.schema import (
    AuditRecord,
    AuditRow,
    BoundRow,
    ExactStatementRow,
    NightRow,
    NoteRow,
    PromiseRow,
    ReliabilityRow,
    SliceRow,
    WealthRow,
)
from workers.warehouse.table_row import TableRow


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """One table of the warehouse.

    Attributes:
        row: the class of its rows; a field's description is the column's.
        keys: the columns that no two of its rows share.
        part: the field of `AuditRecord`, and the column of `audits`, that holds its rows; None
            where it is stored by itself.
    """

    row: type[TableRow]
    keys: tuple[str, ...]
    part: str | None = None


TABLES = {
    "audits": WarehouseTable(AuditRow, ("audit_id",)),
    "audit_bounds": WarehouseTable(BoundRow, ("audit_id", "arm", "family", "fraction"), "bounds"),
    "audit_wealth": WarehouseTable(WealthRow, ("audit_id",), "wealth"),
    "audit_promises": WarehouseTable(
        PromiseRow, ("audit_id", "guarantee", "quantity", "parameter"), "promises"
    ),
    "audit_slices": WarehouseTable(SliceRow, ("audit_id", "column", "value"), "slices"),
    "audit_reliability": WarehouseTable(ReliabilityRow, ("audit_id", "role", "bin"), "reliability"),
    "audit_statements": WarehouseTable(ExactStatementRow, ("audit_id",), "statements"),
    "audit_nights": WarehouseTable(NightRow, ("audit_id", "folded_at")),
    "audit_notes": WarehouseTable(NoteRow, ("audit_id", "kind", "noted_at")),
}
"""Every table by its name."""

PARTS = {name: table.part for name, table in TABLES.items() if table.part is not None}
"""Each part's table, with the field of `AuditRecord` and the column of `audits` that holds it."""

TIMES = {"audits": "recorded_at", "audit_nights": "folded_at", "audit_notes": "noted_at"}
"""The column of each stored table that says when a row was written."""

STORED = tuple(TIMES)
"""The tables that are stored by themselves."""

_ARROW = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    dt.date: pa.date32(),
    tuple[float, ...]: pa.list_(pa.float64()),
    tuple[dt.date, ...]: pa.list_(pa.date32()),
    tuple[str, ...]: pa.list_(pa.string()),
    dt.datetime: pa.timestamp("us", tz="UTC"),
}


@functools.cache
def arrow_schema(row: type[TableRow]) -> pa.Schema:
    """Return the columns of a table's rows as Arrow types, with their descriptions."""
    fields = []
    for name, field in row.model_fields.items():
        hint = field.annotation
        if typing.get_origin(hint) in {types.UnionType, typing.Union}:
            hint = next(part for part in typing.get_args(hint) if part is not type(None))
        if typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        base = next(known for known in _ARROW if hint == known or _is_word(hint, known))
        fields.append(pa.field(name, _ARROW[base], metadata={"comment": field.description or ""}))
    return pa.schema(fields)


@functools.cache
def columns_of_audit(row: type[TableRow]) -> tuple[str, ...]:
    """Return the columns of a part's rows that are those of their audit."""
    shared = {*TableRow.model_fields, "model", "day"}
    return tuple(name for name in row.model_fields if name in shared)


@functools.cache
def stored_schema(table: str) -> pa.Schema:
    """Return the columns of a table as it is stored, without descriptions, which Delta Lake keeps.

    Those of `audits` hold the rows of each part as a list, without the columns of their audit.
    """
    fields = [field.remove_metadata() for field in arrow_schema(TABLES[table].row)]
    for name, part in PARTS.items() if table == "audits" else ():
        row = TABLES[name].row
        own = [one for one in arrow_schema(row) if one.name not in columns_of_audit(row)]
        inner = pa.struct([one.remove_metadata() for one in own])
        fields.append(pa.field(part, pa.list_(inner)))
    return pa.schema(fields)


@functools.cache
def without_rows(row: type[TableRow]) -> pl.DataFrame:
    """Return all columns of a table and no row, made once: a night scans tables many times."""
    return pl.DataFrame(pa.Table.from_batches([], arrow_schema(row)))


@functools.cache
def stored_without_rows(table: str) -> pl.DataFrame:
    """Return the same of a table as it is stored."""
    # `Schema.empty_table` would import pandas.
    return pl.DataFrame(pa.Table.from_batches([], stored_schema(table)))


def as_stored(records: Sequence[AuditRecord]) -> pa.Table:
    """Return records as rows of `audits`."""
    rows = [
        vars(record.audit)
        | {part: [vars(row) for row in getattr(record, part)] for part in PARTS.values()}
        for record in records
    ]
    return pa.Table.from_pylist(rows, stored_schema("audits"))


def as_arrow(table: str, rows: Sequence[TableRow]) -> pa.Table:
    """Return rows of a table without parts."""
    return pa.Table.from_pylist([vars(row) for row in rows], stored_schema(table))


def _is_word(hint: object, known: type) -> bool:
    return known is str and isinstance(hint, type) and issubclass(hint, str)

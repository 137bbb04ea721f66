"""The warehouse, described: `python -m tests.support.dictionary` writes its page of docs/.

Made from the rows' classes and the views' files, so that there is one place to write what a column
means: beside the column. Its introduction is written in the page.
"""

import pathlib
import re
import tempfile
from collections.abc import Iterator

from workers.warehouse.schema import AuditRow
from workers.warehouse.sql import LATEST, VIEWS, WINDOWS, query, view_sql
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS, STORED, TABLES, arrow_schema

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "warehouse.md"
_NO_FIGURES = "where the audit came to no figures"
_TYPES = {
    "bool": "yes or no",
    "string": "text",
    "int64": "integer",
    "double": "number",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "time",
    "list<item: double>": "numbers",
    "list<item: date32[day]>": "dates",
    "list<item: string>": "words",
}

_CURRENT = (
    "The current record of every model, day and secret: the latest that came to figures, or the "
    "latest of all where none did. The latest is the one that was last committed or confirmed, "
    "whatever the clocks said. Of audits of the same inputs by the same method the first counts, "
    "and an exploratory one only where there is no other. One that refutes counts before later "
    "ones of other inputs by the same method. What was withdrawn is passed over."
)


def document() -> str:
    """Return docs/reference/warehouse.md as it should be.

    Raises:
        ValueError: the introduction does not name a table that is stored, or a part of a record.
    """
    first = "## Columns of every table\n"
    introduction = FILE.read_text(encoding="utf-8").partition(first)[0]
    unnamed = {*STORED, *PARTS, *PARTS.values()} - set(re.findall(r"`(\w+)`", introduction))
    if unnamed:
        raise ValueError(f"the introduction of the warehouse's page does not name {unnamed}")
    lines = [introduction.rstrip("\n") + "\n", first]
    lines += _columns(TableRow, list(TableRow.model_fields))
    for name, table in TABLES.items():
        own = [column for column in table.row.model_fields if column not in TableRow.model_fields]
        keys = ", ".join(f"`{key}`" for key in table.keys)
        purpose = " ".join((table.row.__doc__ or "").split())
        lines += [f"## {name}\n", f"{purpose} Its key is {keys}.\n"]
        lines += _columns(table.row, own)
    with tempfile.TemporaryDirectory() as folder:
        empty = Warehouse(folder)
        lines += _relation(empty, LATEST, _CURRENT, {})
        for view in VIEWS:
            lines += _relation(empty, view, *_described(view_sql(view)))
        lines += _relation(empty, WINDOWS, "What `audit_nights` says now of current audits.", {})
    return "\n".join(lines).rstrip() + "\n"


def _columns(row: type[TableRow], columns: list[str]) -> Iterator[str]:
    """Yield a table of a table's columns."""
    yield "| column | type | meaning | null |\n| --- | --- | --- | --- |"
    schema = arrow_schema(row)
    for column in columns:
        field = row.model_fields[column]
        meaning, _, null = (field.description or "").partition(" Null ")
        if not null and type(None) in getattr(field.annotation, "__args__", ()):
            null = _NO_FIGURES
        kind = _TYPES[str(schema.field(column).type)]
        yield f"| `{column}` | {kind} | {meaning} | {null.rstrip('.') or 'never'} |"
    yield ""


def _relation(empty: Warehouse, name: str, purpose: str, meanings: dict[str, str]) -> Iterator[str]:
    """Yield the section of a view, with what its columns say that are in no table."""
    columns = query(empty, f"select * from {name}").columns  # noqa: S608
    unknown = meanings.keys() - set(columns)
    if unknown:
        raise ValueError(f"the view {name} explains columns that it does not have: {unknown}")
    yield f"## {name} (view)\n"
    yield f"{purpose}\n"
    if columns == list(AuditRow.model_fields):
        yield "Columns: those of `audits`.\n"
        return
    yield f"Columns: {', '.join(f'`{column}`' for column in columns)}.\n"
    yield from (f"- `{column}`: {meaning}" for column, meaning in meanings.items())
    yield ""


def _described(sql: str) -> tuple[str, dict[str, str]]:
    """Return what a view's first comment says of it, and of its columns."""
    purpose, meanings = [], {}
    for line in sql.splitlines():
        if not line.startswith("-- "):
            break
        name, colon, meaning = line.removeprefix("-- ").partition(": ")
        if colon and name.isidentifier():
            meanings[name] = meaning
        else:
            purpose.append(line.removeprefix("-- "))
    return " ".join(purpose), meanings


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")

"""Output of studies: tables and findings for a person, one stream of rows for programs."""

import textwrap
from typing import TYPE_CHECKING

import typer

from flows.commands.printing import Form, console, print_rows, print_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from flows.report.study_page import StudyTable
    from flows.study.runner import Written

_SHORT = 24
"""Characters of numbers, and of what a row is called, that are never wrapped."""
_ENDLESS = 10_000


def print_study(found: "Written", form: Form) -> None:
    """Print what a study came to.

    JSON is one object of tables, findings and files; CSV has a line for each cell of each table.
    """
    if form is Form.JSON:
        typer.echo(found.as_json())
        return
    if form is Form.TABLE:
        out = console()
        for table in found.tables:
            print_table(fitted(table, out), out)
            if out.is_terminal:
                out.print()
        for sentence in found.sentences:
            out.print(f"- {sentence}", highlight=False, markup=False)
        for file in found.files:
            out.print(str(file), soft_wrap=True, highlight=False)
        return
    import polars as pl

    cells = [
        (table.title, number, name, text)
        for table in found.tables
        for number, row in enumerate(table.rows)
        for (name, _), text in zip(table.columns, row, strict=True)
    ]
    print_rows(pl.DataFrame(cells, schema=["table", "row", "column", "text"], orient="row"), form)


def fitted(table: "StudyTable", out: "Console") -> "Table":
    """Return a table for the terminal: what a narrow one has no room for is left out."""
    from rich.measure import Measurement

    whole = _printed(table, left_out=(), narrow=out.is_terminal)
    unlimited = out.options.update(max_width=_ENDLESS)
    if Measurement.get(out, unlimited, whole).minimum <= out.width:
        return whole
    return _printed(table, left_out=table.wide, narrow=True)


def _printed(table: "StudyTable", *, left_out: tuple[str, ...], narrow: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(table.title), title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    kept = [at for at, (name, _) in enumerate(table.columns) if name not in left_out]
    for at in kept:
        name, number = table.columns[at]
        longest = max((len(row[at]) for row in table.rows), default=0)
        if narrow:
            name = textwrap.fill(
                name, max(longest, *map(len, name.split())), break_long_words=False
            )
        whole = longest <= _SHORT and (number or at == 0)
        made.add_column(name, justify="right" if number else "left", no_wrap=whole)
    for row in table.rows:
        made.add_row(*(Text(row[at]) for at in kept))
    return made

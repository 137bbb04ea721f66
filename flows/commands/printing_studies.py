"""How studies print: several tables and findings for a person, one stream of rows for programs."""

import json
from typing import TYPE_CHECKING

import typer

from flows.commands.printing import Form, console, print_rows, print_table

if TYPE_CHECKING:
    from flows.study.printing import Written


def print_study(found: "Written", form: Form) -> None:
    """Print what a study came to.

    JSON is one object of tables, findings and files; CSV has a line for each cell of each table.
    """
    from flows.study.printing import as_shown

    if form is Form.TABLE:
        out = console()
        for table in found.tables:
            print_table(table, out)
            if out.is_terminal:
                out.print()
        for sentence in found.sentences:
            out.print(f"- {sentence}", highlight=False)
        for file in found.files:
            out.print(str(file), soft_wrap=True, highlight=False)
        return
    shown = [as_shown(table) for table in found.tables]
    if form is Form.JSON:
        tables = [
            {
                "title": table.title,
                "rows": [
                    dict(zip((name for name, _ in table.columns), row, strict=True))
                    for row in table.rows
                ],
            }
            for table in shown
        ]
        files = [str(file) for file in found.files]
        told = {"tables": tables, "findings": list(found.sentences), "files": files}
        typer.echo(json.dumps(told, indent=2))
        return
    import polars as pl

    cells = [
        (table.title, number, name, text)
        for table in shown
        for number, row in enumerate(table.rows)
        for (name, _), text in zip(table.columns, row, strict=True)
    ]
    print_rows(pl.DataFrame(cells, schema=["table", "row", "column", "text"], orient="row"), form)

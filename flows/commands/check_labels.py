"""Audit: `privaudit check-labels`, true labels held against those that a mechanism released."""

from typing import Annotated

import typer

from flows.commands.options import AUDIT, JsonOption
from flows.commands.printing import json_text

app = typer.Typer()

ReadsOption = Annotated[
    str,
    typer.Option(
        metavar="COLUMN,...|nothing", help="What the mechanism reads beside label and coin."
    ),
]


@app.command(rich_help_panel=AUDIT)
def check_labels(
    table: Annotated[
        str, typer.Argument(help="Path or URI of Parquet or CSV files, or of a Delta table.")
    ],
    true: Annotated[
        str, typer.Option(help="Column of the label that the mechanism read, uncorrected.")
    ],
    released: Annotated[str, typer.Option(help="Column of the label that it released.")],
    epsilon: Annotated[float, typer.Option(help="Declared epsilon of one label.")],
    record: Annotated[
        str,
        typer.Option(
            metavar="COLUMN|row", help="Column of the record; row if each row is one of its own."
        ),
    ],
    delta: Annotated[float, typer.Option(help="Declared delta.")] = 0.0,
    reads: ReadsOption = "nothing",
    time: Annotated[
        str | None, typer.Option(help="Column that orders the rows, to look for shared coins.")
    ] = None,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 2 also where there are too few labels.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare true labels with released ones, row by row: no model is asked.

    Proves how much the mechanism itself gives away of labels, whatever is trained on them.

    Exit code: 0 nothing refutes the declaration, or too few labels; 1 violated; 2 inconclusive by
    a doubt; 3 error.

    Example: privaudit check-labels day.parquet --true y --released z --epsilon 1 --record user_id
    """
    from privcore.exceptions import InvalidInputError
    from privcore.lower_bounds.released_labels import Declared
    from privcore.lower_bounds.verdicts import Verdict
    from workers.audit.label_check import AskedLabels, fields_of, judge_labels
    from workers.plain_text import plain_text
    from workers.sources.tables.table_files import read_rows

    try:
        declared = Declared(epsilon, delta)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None
    columns = [name.strip() for name in reads.split(",") if name.strip()]
    asked = AskedLabels(
        true,
        released,
        declared,
        record,
        () if columns == ["nothing"] else tuple(columns),
        time,
    )
    judged = judge_labels(read_rows(table), asked)
    if as_json:
        typer.echo(json_text(fields_of(judged, asked)))
    else:
        said = f"{judged.verdict}: {judged.code}" if judged.code else str(judged.verdict)
        for line in (f"{said}. {judged.reason}", *judged.remarks):
            typer.echo(plain_text(line))
    if judged.verdict is Verdict.VIOLATED:
        raise typer.Exit(1)
    by_size = judged.code is not None and judged.code.by_size
    if judged.verdict is Verdict.INCONCLUSIVE and (strict or not by_size):
        raise typer.Exit(2)

"""`privaudit ladder`: cost of protection, on a team's own rows."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LEARN
from flows.commands.study import study_command

if TYPE_CHECKING:
    from flows.study.runner import Study

app = typer.Typer()


@app.command(rich_help_panel=LEARN)
@study_command
def ladder(
    table: Annotated[str, typer.Argument(help="Parquet or CSV file of your rows, by path or URI.")],
    label: Annotated[str, typer.Option(help="The label's column, of a few classes.")],
    output: Annotated[
        pathlib.Path,
        typer.Option(help="Folder for the results, and for a lake with a copy of the rows."),
    ],
    feature: Annotated[
        list[str] | None,
        typer.Option(help="A column that models may use (repeatable); all others by default."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            help="Epsilon of each mechanism (repeatable, at most 12). By default 1, 2 and 4."
        ),
    ] = None,
) -> "Study":
    """Show what protection costs on your rows: accuracy, promise and proof, by epsilon.

    It trains LP-1ST, LP-2ST and PATE models at each epsilon, and one without protection, on a third
    of the rows, and audits each. It also counts what a choice by these figures costs. Of a larger
    table, 100,000 rows are drawn. Finished models are kept below the output folder and not trained
    again. All figures are exact: they are for people who may read the labels.

    Example: privaudit ladder visits.parquet --label readmitted --epsilon 2 --output ladder
    """
    from flows.study import ladder as of_rows

    return of_rows.study(
        output, table, label=label, features=feature or (), epsilons=epsilon or of_rows.EPSILONS
    )

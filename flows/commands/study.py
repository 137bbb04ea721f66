"""`privaudit study`: published figures and tables, computed anew."""

import pathlib
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Compute published figures and tables anew.")


@app.command()
def bounds(
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the data (CSV) and the drawings (SVG).")
    ],
) -> None:
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """
    from rich.progress import Progress

    from flows.study.bounds import STEPS, published_table, study_bounds

    console = Console()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("Figures", total=STEPS)
        found = study_bounds(output, advance=lambda: progress.advance(bar))
    console.print(published_table(found.published))
    for file in found.files:
        console.print(str(file), soft_wrap=True, highlight=False)

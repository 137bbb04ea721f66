"""`privaudit report`."""

import pathlib
from typing import Annotated

import typer

from flows.commands.options import LOOK, ConfigOption
from flows.commands.printing import working

app = typer.Typer()

ExactOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        help="Write the exact report into this folder, which its owner alone may read. It is for "
        "people who may read the labels.",
        show_default=False,
    ),
]


@app.command(rich_help_panel=LOOK)
def report(exact: ExactOption = None, config: ConfigOption = None) -> None:
    """Write the report again: of public statements where `[publication]` is set, else exact.

    Example: privaudit report --config demo/privaudit.toml
    """
    with working("Writing the report"):
        from flows.report import write_report
        from flows.run.publish import write
        from flows.settings import load_settings
        from workers.warehouse.store import Warehouse

        settings = load_settings(config)
        if exact is None:
            path = write(settings)
        else:
            path = write_report(Warehouse(settings.warehouse), exact)
    typer.echo(f"Report: {path}")

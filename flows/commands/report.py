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
        from flows.run.publish_report import write, write_exact
        from flows.settings import load_settings

        settings = load_settings(config)
        path = write(settings) if exact is None else write_exact(settings, exact)
    typer.echo(f"Report: {path}")

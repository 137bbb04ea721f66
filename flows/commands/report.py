"""`privaudit report`."""

import typer

from flows.commands.options import LOOK, ConfigOption
from flows.commands.printing import working

app = typer.Typer()


@app.command(rich_help_panel=LOOK)
def report(config: ConfigOption = None) -> None:
    """Write the report again.

    Example: privaudit report --config demo/privaudit.toml
    """
    with working("Writing the report"):
        from flows.run.publish_report import write
        from flows.settings import load_settings

        path = write(load_settings(config))
    typer.echo(f"Report: {path}")

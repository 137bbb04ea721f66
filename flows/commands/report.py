"""`privaudit report`."""

import typer

from flows.commands.options import LOOK, ConfigOption
from flows.commands.printing import working

app = typer.Typer()


@app.command(rich_help_panel=LOOK)
def report(config: ConfigOption = None) -> None:
    """Write the report from the warehouse again.

    Example: privaudit report --config demo/privaudit.toml
    """
    with working("Writing the report"):
        from flows.report import write_report
        from flows.settings import load_settings
        from workers.warehouse.store import Warehouse

        settings = load_settings(config)
        path = write_report(Warehouse(settings.warehouse), settings.report)
    typer.echo(f"Report: {path}")

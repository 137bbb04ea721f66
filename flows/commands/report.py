"""`privaudit report`."""

import typer

from flows.commands.options import LOOK, ConfigOption

app = typer.Typer()


@app.command(rich_help_panel=LOOK)
def report(config: ConfigOption = None) -> None:
    """Write the report from the warehouse again.

    Example: privaudit report --config demo/privaudit.toml
    """
    from flows.report import write_report
    from flows.settings import load_settings
    from workers.warehouse import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    promises = warehouse.scan("audit_promises").collect()
    path = write_report(warehouse.current(), settings.report, promises=promises)
    typer.echo(f"Report: {path}")

"""Audit on demand, and look at what was found: `privaudit run`, `show`."""

import datetime as dt
from typing import Annotated

import typer

from flows.commands.options import AsOfOption, ByLogOption, ConfigOption, JsonOption, parse_day
from flows.commands.printing import print_audits, quiet

app = typer.Typer()


@app.command()
def run(
    model: Annotated[str, typer.Option(help="Name of the model.")],
    day: Annotated[dt.date, typer.Option(parser=parse_day, metavar="DATE", help="Audited day.")],
    config: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Audit one model on one day, on demand, and commit the record.

    Exit code: 0 consistent or undeclared, 1 violated, 2 not evaluable or proxy unfaithful,
    3 error.

    Example: privaudit run --model delays-private --day 2013-02-03
    """
    quiet()
    import polars as pl

    from flows.audit_model import audit_model
    from flows.conclusion import AlertsUndeliveredError, AuditsFailedError, exit_code
    from flows.settings import load_settings
    from workers.warehouse import Warehouse

    settings = load_settings(config)
    try:
        rows = audit_model(model=model, day=day, settings=str(config) if config else None)
    except (AuditsFailedError, AlertsUndeliveredError) as error:
        rows = error.rows
    committed = pl.DataFrame([row.model_dump() for row in rows], infer_schema_length=None)
    current = (
        Warehouse(settings.warehouse)
        .scan("audits")
        .filter(pl.col("audit_id").is_in(committed["audit_id"].to_list()))
        .collect()
    )
    print_audits(current, as_json=as_json)
    for row in rows:
        typer.echo(row.reason, err=as_json)
    raise typer.Exit(exit_code(rows))


@app.command()
def show(
    config: ConfigOption = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every current record, not only the latest night.")
    ] = False,
    as_of: AsOfOption = None,
    by_log: ByLogOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the audits of the latest night.

    Examples: privaudit show --all --json; privaudit show --as-of 2026-05-01T12:00
    """
    import polars as pl

    from flows.settings import load_settings
    from workers.warehouse import Warehouse
    from workers.windows import with_windows

    warehouse = Warehouse(load_settings(config).warehouse, as_of=as_of, by_log=by_log)
    audits = with_windows(warehouse, warehouse.current())
    if not every and audits.height:
        audits = audits.filter(pl.col("day") == audits["day"].max())
    print_audits(audits, as_json=as_json)

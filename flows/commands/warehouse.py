"""The warehouse as data: `privaudit sql`, `export`, `compact`, `withdraw`."""

import dataclasses
import datetime as dt
import json
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import (
    LOOK,
    OPERATE,
    AsOfOption,
    ConfigOption,
    CsvOption,
    JsonOption,
    day_option,
)
from flows.commands.printing import Form, begin_prefect, form_of, print_rows, working

if TYPE_CHECKING:
    from flows.settings import Settings

app = typer.Typer()


@app.command(rich_help_panel=LOOK)
def sql(
    query: Annotated[
        str,
        typer.Argument(help="A query over the tables and views of docs/reference/warehouse.md."),
    ],
    config: ConfigOption = None,
    *,
    as_of: AsOfOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the warehouse in SQL (DuckDB's dialect).

    Examples: privaudit sql "select model, max(epsilon_lower) from latest_audits group by model";
    privaudit sql "from violations" --as-of 2026-05-01T12:00
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    with working("Asking the warehouse"):
        from flows.settings import load_settings
        from workers.warehouse.sql import query as ask
        from workers.warehouse.store import Warehouse

        settings = load_settings(config)
        warehouse = Warehouse(settings.warehouse, as_of=as_of)
        warehouse.check_exists()
        answer = ask(warehouse, query)
    print_rows(answer, form)


@app.command(rich_help_panel=LOOK)
def export(
    output: Annotated[pathlib.Path, typer.Option(help="Folder for the files; made if need be.")],
    config: ConfigOption = None,
    *,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write every table and view of the warehouse to a Parquet file of its name.

    The files copy exact figures, which labels change: let only those read them who may read
    results about labels.

    Example: privaudit export --output audits
    """
    with working("Exporting"):
        from flows.settings import load_settings
        from workers.warehouse.sql import export as write
        from workers.warehouse.store import Warehouse

        warehouse = Warehouse(load_settings(config).warehouse, as_of=as_of)
        warehouse.check_exists()
        files = [str(file) for file in write(warehouse, output)]
    typer.echo(json.dumps(files, indent=2) if as_json else "\n".join(files))


@app.command(rich_help_panel=OPERATE)
def compact(
    config: ConfigOption = None,
    *,
    retain: Annotated[
        int,
        typer.Option(metavar="DAYS", help="Number of days that replaced files stay."),
    ] = 30,
    delete_before: Annotated[
        dt.date | None,
        day_option("Also delete the audits of all days before this one, in all tables."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rewrite the warehouse's small files as large ones, and delete files replaced long ago.

    No audit is deleted unless --delete-before asks for it.

    Example: privaudit compact --retain 30
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    import polars as pl

    from flows.settings import load_settings
    from workers.warehouse import maintenance
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    undelivered: tuple[str, ...] = ()
    if delete_before is not None:
        if not yes:
            typer.confirm(f"Delete all audits before {delete_before}?", abort=True, err=True)
        undelivered = _delete(settings, delete_before, form)
    with working("Compacting"):
        tables = maintenance.compact(warehouse, kept_days=retain)
        done = [dataclasses.asdict(table) for table in tables]
    print_rows(pl.DataFrame(done), form)
    _check_delivered(undelivered)


def _delete(settings: "Settings", day: dt.date, form: Form) -> tuple[str, ...]:
    """Delete audits and print how many; return why alerts of it were not delivered."""
    begin_prefect()
    from flows.run.upkeep import delete_audits

    deleted, undelivered = delete_audits(settings, day)
    typer.echo(f"{deleted} audits deleted.", err=form is not Form.TABLE)
    return undelivered


def _check_delivered(undelivered: tuple[str, ...]) -> None:
    if undelivered:
        from flows.notify.alerts import WebhookError

        raise WebhookError(" ".join(undelivered))


@app.command(rich_help_panel=OPERATE)
def withdraw(
    audit_id: Annotated[str, typer.Argument(help="The audit's id, or how it begins.")],
    config: ConfigOption = None,
    *,
    why: Annotated[
        str, typer.Option(help="Reason for taking it back; it is kept with the record.")
    ],
) -> None:
    """Take back an audit that was committed by mistake.

    Its record stays and can be read, but it is never again the current one of its model and day:
    not in show, not in the report, not in windows of nights. The withdrawal is a record too
    (the table audit_withdrawals), and an alert. It cannot be undone: correct what was wrong and
    audit again.

    Example: privaudit withdraw 0f3c2a91 --why "Audited with the lake of another team."
    """
    begin_prefect()
    from flows.run.upkeep import withdraw_audit
    from flows.settings import load_settings
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    whole = warehouse.whole_id(audit_id)
    undelivered = withdraw_audit(settings, whole, why=why)
    typer.echo(f"{whole} is withdrawn; privaudit report draws the pages without it.")
    _check_delivered(undelivered)


@app.command(rich_help_panel=LOOK)
def report(config: ConfigOption = None) -> None:
    """Write the report again.

    Example: privaudit report --config demo/privaudit.toml
    """
    with working("Writing the report"):
        from flows.run.conclusion import write
        from flows.settings import load_settings

        path = write(load_settings(config))
    typer.echo(f"Report: {path}")

"""The warehouse, read and kept: from `privaudit show` to `acknowledge`."""

import dataclasses
import datetime as dt
import json
import pathlib

import typer

from flows.commands.options import (
    LOOK,
    OPERATE,
    AsOfOption,
    AuditId,
    ConfigOption,
    JsonOption,
    command,
    open_warehouse,
)
from flows.commands.printing import begin_prefect, print_audits, print_rows, say, working
from privcore.exceptions import TerminalError
from workers.plain_text import plain_text

app = typer.Typer()


@command(app, panel=LOOK)
def show(
    *,
    config: ConfigOption = None,
    model: str | None = None,
    every: bool = False,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print how each model stands, by its nights together up to its own last record.

    Examples: privaudit show; privaudit show --model delays-private --all;
    privaudit show --as-of 2026-05-01T12:00

    Options:
        model: Print this model alone, on its own latest night.
        every (--all): Every current record, not only each model's latest.
    """
    with working("Reading the warehouse"):
        import polars as pl

        from flows.next_steps import with_next_steps
        from workers.warehouse.acknowledgements import with_acknowledgements
        from workers.warehouse.nights_together import with_windows

        _, warehouse = open_warehouse(config, as_of)
        last = warehouse.last_audits()
        if model is not None:
            last = last.filter(last["model"] == model)
            if last.is_empty():
                raise TerminalError(
                    f"The warehouse has no audit of model {plain_text(model)!r}: "
                    "`privaudit show --all` prints the models that it has."
                )
        # A night's q-values are of all its models, so its other models are left out at the end.
        days = None if every else last["day"].unique().to_list()
        audits = with_windows(warehouse, warehouse.current(every_secret=True, days=days))
        audits = with_acknowledgements(warehouse, audits)
        wanted = last["model"] if every else last["audit_id"]
        audits = audits.filter(pl.col(wanted.name).is_in(wanted.implode()))
        audits = with_next_steps(audits)
    print_audits(audits, as_json=as_json)


@command(app, panel=LOOK)
def sql(
    query: str,
    *,
    config: ConfigOption = None,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the warehouse in SQL (DuckDB's dialect).

    Examples: privaudit sql "select model, max(epsilon_lower) from latest_audits group by model";
    privaudit sql "from violations" --as-of 2026-05-01T12:00

    Options:
        query: A query over the tables and views of docs/reference/warehouse.md.
    """
    with working("Asking the warehouse"):
        from workers.warehouse.sql import query as ask

        _, warehouse = open_warehouse(config, as_of)
        answer = ask(warehouse, query)
    print_rows(answer, as_json=as_json)


@command(app, panel=LOOK)
def export(
    *,
    output: pathlib.Path,
    config: ConfigOption = None,
    as_of: AsOfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write every table and view of the warehouse to a Parquet file of its name.

    The files copy exact figures, which labels change: let only those read them who may read
    results about labels.

    Example: privaudit export --output audits

    Options:
        output: Folder for the files; made if need be.
    """
    with working("Exporting"):
        from workers.warehouse.sql import export as write

        _, warehouse = open_warehouse(config, as_of)
        files = [str(file) for file in write(warehouse, output)]
    typer.echo(json.dumps(files, indent=2) if as_json else "\n".join(files))


@command(app, panel=OPERATE)
def compact(
    *,
    config: ConfigOption = None,
    retain: int = 30,
    delete_before: dt.date | None = None,
    yes: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Rewrite the warehouse's small files as large ones, and delete files replaced long ago.

    No audit is deleted unless --delete-before asks for it.

    Example: privaudit compact --retain 30

    Options:
        retain (DAYS): Number of days that replaced files stay.
        delete_before: Also delete the audits of all days before this one, in all tables.
        yes: Do not ask before deleting.
    """
    import polars as pl

    from workers.warehouse import maintenance

    settings, warehouse = open_warehouse(config)
    undelivered: tuple[str, ...] = ()
    if delete_before is not None:
        if not yes:
            typer.confirm(f"Delete all audits before {delete_before}?", abort=True, err=True)
        begin_prefect()
        from flows.run.upkeep import delete_audits

        deleted, undelivered = delete_audits(settings, delete_before)
        say(f"{deleted} audits deleted.", aside=as_json)
    with working("Compacting"):
        tables = maintenance.compact(warehouse, kept_days=retain)
        done = [dataclasses.asdict(table) for table in tables]
    print_rows(pl.DataFrame(done), as_json=as_json)
    _check_delivered(undelivered)


def _check_delivered(undelivered: tuple[str, ...]) -> None:
    if undelivered:
        from flows.notify.alerts import WebhookError

        raise WebhookError(" ".join(undelivered))


@command(app, panel=OPERATE)
def withdraw(audit_id: AuditId, *, config: ConfigOption = None, why: str) -> None:
    """Take back an audit that was committed by mistake.

    Its record stays and can be read, but it is never again the current one of its model and day:
    not in show, not in the report, not in windows of nights. The withdrawal is a record too
    (a row of audit_notes), and an alert. It cannot be undone: correct what was wrong and
    audit again.

    Example: privaudit withdraw 0f3c2a91 --why "Audited with the lake of another team."

    Options:
        why: Reason for taking it back; it is kept with the record.
    """
    begin_prefect()
    from flows.run.upkeep import withdraw_audit

    settings, warehouse = open_warehouse(config)
    whole = warehouse.whole_id(audit_id)
    undelivered = withdraw_audit(settings, whole, why=why)
    typer.echo(f"{whole} is withdrawn; privaudit report draws the pages without it.")
    _check_delivered(undelivered)


@command(app, panel=OPERATE)
def acknowledge(
    audit_id: AuditId, *, config: ConfigOption = None, why: str, until: dt.date
) -> None:
    """Say that a violation is known: nobody is notified of it again until a day.

    The verdict, the exit codes and the record stay. People are notified again after that day, and
    before it if a night proves more. Another declaration, label or dataset is not covered. The
    acknowledgement stands on the model's page and in show. It is an alert of its own, and a row of
    audit_notes, with the user's name. A later one replaces it.

    Example: privaudit acknowledge 0f3c2a91 --why "Fix in review, ticket 812." --until 2026-12-01

    Options:
        why: Reason: the cause that is known, and what is done about it. It is kept.
        until: Last day, at most 28 days from today.
    """
    begin_prefect()
    from flows.run.upkeep import acknowledge_violation

    settings, warehouse = open_warehouse(config)
    whole = warehouse.whole_id(audit_id)
    made, undelivered = acknowledge_violation(settings, whole, why=why, until=until)
    say(made.sentence())
    _check_delivered(undelivered)


@command(app, panel=LOOK)
def report(*, config: ConfigOption = None) -> None:
    """Write the report again.

    Example: privaudit report --config demo/privaudit.toml
    """
    with working("Writing the report"):
        from flows.run.conclusion import write
        from flows.settings import load_settings

        path = write(load_settings(config))
    typer.echo(f"Report: {path}")

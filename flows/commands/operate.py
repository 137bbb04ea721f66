"""Set up and operate: `privaudit acknowledge`, `init`, `check`, `overdue`, `notify`."""

import datetime as dt
import pathlib
from typing import Annotated

import typer
from rich.markup import escape

from flows.commands.options import (
    OPERATE,
    ConfigOption,
    CsvOption,
    DayOption,
    JsonOption,
    day_option,
)
from flows.commands.printing import (
    Form,
    begin_prefect,
    console,
    form_of,
    print_rows,
    quiet,
    working,
)

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def acknowledge(
    audit_id: Annotated[str, typer.Argument(help="The audit's id, or how it begins.")],
    config: ConfigOption = None,
    *,
    why: Annotated[
        str,
        typer.Option(
            help="Reason: the cause that is known, and what is done about it. It is kept."
        ),
    ],
    until: Annotated[dt.date, day_option("Last day, at most 28 days from today.")],
) -> None:
    """Say that a violation is known: nobody is notified of it again until a day.

    The verdict, the exit codes and the record stay. People are notified again after that day, and
    before it if a night proves more. Another declaration, label or dataset is not covered. The
    acknowledgement stands on the model's page and in show. It is an alert of its own, and a row of
    audit_acknowledgements, with the user's name. A later one replaces it.

    Example: privaudit acknowledge 0f3c2a91 --why "Fix in review, ticket 812." --until 2026-12-01
    """
    begin_prefect()
    from flows.notify.alerts import WebhookError
    from flows.run.upkeep import acknowledge_violation
    from flows.settings import load_settings
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    whole = warehouse.whole_id(audit_id)
    made, undelivered = acknowledge_violation(settings, whole, why=why, until=until)
    typer.echo(f"{made.sentence()}")
    if undelivered:
        raise WebhookError(" ".join(undelivered))


@app.command(rich_help_panel=OPERATE)
def init(
    file: Annotated[
        pathlib.Path, typer.Argument(help="Settings file to write.", show_default=True)
    ] = pathlib.Path("privaudit.toml"),
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace settings that are there.")
    ] = False,
) -> None:
    """Write a settings file in which every key is explained.

    Examples: privaudit init; privaudit init /etc/privaudit/privaudit.toml
    """
    from flows.commands.settings_template import write_template

    write_template(file, replace=force)
    typer.echo(f"Wrote {file}: set lake, warehouse and models in it, then run privaudit check.")


@app.command(rich_help_panel=OPERATE)
def check(
    day: Annotated[
        dt.date | None,
        day_option("Day whose models and labels are tried; each model's newest by default."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="Try only this model (repeatable); by default all."),
    ] = None,
    config: ConfigOption = None,
    *,
    full: Annotated[
        bool,
        typer.Option("--full", help="Read all of the day's rows, as the audit does, not a sample."),
    ] = False,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Try the settings against the real lake, warehouse, Ray, Prefect and webhook.

    Of each model a day is tried as its audit would: manifest, checkpoints, labels and what is
    declared, by the audit's own rules. One line each: ok, or failed with what is wrong and what to
    do. Nothing is stored. Exit code 0 if all is well, 1 otherwise.

    Examples: privaudit check; privaudit check --model ads-ctr --day 2026-11-19 --full
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    quiet()
    from flows.commands.checks import checks

    found = []
    out = console()
    with working("Checking") as paused:
        for result in checks(config, day=day, models=models, whole=full):
            found.append(result)
            if form is Form.TABLE:
                sign = "[green]ok    [/]" if result.ok else "[bold red]failed[/]"
                with paused():
                    out.print(f"{sign} {escape(result.what)}: {escape(result.sentence)}")
    if form is not Form.TABLE:
        import polars as pl

        rows = [{"check": one.what, "ok": one.ok, "sentence": one.sentence} for one in found]
        print_rows(pl.DataFrame(rows), form)
    raise typer.Exit(0 if all(result.ok for result in found) else 1)


@app.command(rich_help_panel=OPERATE)
def overdue(
    day: DayOption = None,
    config: ConfigOption = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the models without an audit whose deadline has passed, and alert.

    For a scheduler other than Prefect's, so that a silent Prefect does not go unnoticed: needs no
    server. Alerts go to the settings' webhook. Exit code 0 if none is missing, 1 otherwise.

    Examples: privaudit overdue; privaudit overdue --day 2013-02-05 --json
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    import polars as pl

    from flows.run.nightly import overdue_models
    from flows.settings import load_settings

    settings = load_settings(config)
    now = dt.datetime.now(dt.UTC)
    audited = day or settings.yesterday(now)
    models = overdue_models(settings, audited, now=now)
    if form is not Form.TABLE:
        rows = [{"model": model, "day": audited} for model in models]
        print_rows(pl.DataFrame(rows, schema={"model": pl.String, "day": pl.Date}), form)
    for model in models if form is Form.TABLE else ():
        typer.echo(f"{model}: no audit for {audited}")
    if settings.webhook is not None:
        from flows.notify.alerts import send
        from flows.notify.events import missing

        for model in models:
            send(settings.webhook, missing(model, audited, settings).payload())
    raise typer.Exit(1 if models else 0)


@app.command(rich_help_panel=OPERATE)
def notify(
    *,
    test: Annotated[bool, typer.Option("--test", help="Send a test message.")] = False,
    config: ConfigOption = None,
) -> None:
    """Send one test message to the webhook and to each notification block that gets alerts.

    One line each: ok, or failed with what to check. Exit code 0 if all were accepted, 1 otherwise.

    Example: privaudit notify --test
    """
    if not test:
        raise typer.BadParameter("give --test: audits send alerts, this command does not.")
    begin_prefect()
    from flows.notify.alerts import send_tests
    from flows.settings import load_settings

    every = True
    out = console()
    for sent in send_tests(load_settings(config)):
        sign = "[green]ok    [/]" if sent.ok else "[bold red]failed[/]"
        out.print(f"{sign} {escape(sent.what)}: {escape(sent.sentence)}")
        every = every and sent.ok
    raise typer.Exit(0 if every else 1)

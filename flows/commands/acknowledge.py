"""`privaudit acknowledge`: a violation that a person knows of."""

import datetime as dt
from typing import Annotated

import typer

from flows.commands.options import OPERATE, ConfigOption, day_option
from flows.commands.printing import begin_prefect

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
    from flows.notify.webhook import WebhookError
    from flows.run.acknowledging import acknowledge_violation
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

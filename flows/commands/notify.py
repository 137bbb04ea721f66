"""`privaudit notify`: a test message, or the week's, through what alerts go to."""

import datetime as dt
import pathlib
from typing import Annotated

import typer
from rich.markup import escape

from flows.commands.options import OPERATE, ConfigOption, DayOption
from flows.commands.printing import console, quiet

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def notify(
    *,
    test: Annotated[bool, typer.Option("--test", help="Send a test message.")] = False,
    block: Annotated[
        str | None,
        typer.Option(
            help="Notification block as type/name, as slack-webhook/privacy; by default those that "
            "privaudit's automations use."
        ),
    ] = None,
    digest: Annotated[
        bool, typer.Option("--digest", help="Send and print the message about the week.")
    ] = False,
    day: DayOption = None,
    config: ConfigOption = None,
) -> None:
    """Send one test message to the webhook and to each notification block that gets alerts.

    One line each: ok, or failed with what to check. Exit code 0 if all were accepted, 1 otherwise.

    With --digest, the message about the week that ends with --day is sent instead, as the
    deployment weekly-digest/production sends it: what is refuted, new, resolved, acknowledged, and
    which acknowledgements end soon; of public statements alone where these are published.

    Examples: privaudit notify --test; privaudit notify --test --block slack-webhook/privacy;
    privaudit notify --digest
    """
    if test == digest:
        raise typer.BadParameter(
            "give one of --test and --digest: alerts are sent by audits, not by this command."
        )
    quiet()
    if digest:
        _send_digest(config, day)
        return
    from flows.notify.trial import send_tests
    from flows.settings import load_settings

    every = True
    out = console()
    for sent in send_tests(load_settings(config), block=block):
        sign = "[green]ok    [/]" if sent.ok else "[bold red]failed[/]"
        out.print(f"{sign} {escape(sent.what)}: {escape(sent.sentence)}")
        every = every and sent.ok
    raise typer.Exit(0 if every else 1)


def _send_digest(config: pathlib.Path | None, day: dt.date | None) -> None:
    from flows.run.weekly import send_digest
    from flows.settings import load_settings

    settings, now = load_settings(config), dt.datetime.now(dt.UTC)
    alert = send_digest(settings, day or settings.yesterday(now), today=now.date())
    typer.echo(f"{alert.subject}\n{alert.reason}")

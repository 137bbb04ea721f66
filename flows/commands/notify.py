"""`privaudit notify`: a test message through what alerts go to."""

from typing import Annotated

import typer
from rich.markup import escape

from flows.commands.options import OPERATE, ConfigOption
from flows.commands.printing import begin_prefect, console

app = typer.Typer()


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
    from flows.notify.trial import send_tests
    from flows.settings import load_settings

    every = True
    out = console()
    for sent in send_tests(load_settings(config)):
        sign = "[green]ok    [/]" if sent.ok else "[bold red]failed[/]"
        out.print(f"{sign} {escape(sent.what)}: {escape(sent.sentence)}")
        every = every and sent.ok
    raise typer.Exit(0 if every else 1)

"""The command `privaudit`: puts the commands of `flows.commands` together and reports errors."""

import sys

import typer

from flows.commands import (
    audits,
    demo,
    explain,
    ingest,
    report,
    study,
    training,
    verify,
    warehouse,
)
from privcore.exceptions import AuditError

app = typer.Typer(
    name="privaudit",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Nightly observational audits of differential-privacy guarantees for labels.",
)

for group in (demo, audits, verify, warehouse, report, explain, training):
    app.add_typer(group.app)
app.add_typer(ingest.app, name="ingest")
app.add_typer(study.app, name="study")


def main() -> None:
    """Run the command line; an error made on purpose is one sentence and exit code 3."""
    try:
        app()
    except AuditError as error:
        typer.echo(f"privaudit: {error}", err=True)
        sys.exit(3)

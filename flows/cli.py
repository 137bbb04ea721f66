"""The command `privaudit`: puts the commands of `flows.commands` together and reports errors."""

import sys
from typing import Annotated

import typer

from flows.commands import (
    audits,
    demo,
    explain,
    ingest,
    operate,
    release,
    report,
    show,
    study,
    training,
    verify,
    warehouse,
)
from flows.commands.options import LEARN, OPERATE
from privcore.exceptions import AuditError
from workers.plain_text import plain_text

_USAGE, _ERROR = 64, 3
# typer does not export its usage error; a bad parameter is one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="privaudit",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

for group in (audits, release, show, verify, warehouse, report, operate, demo, explain, training):
    app.add_typer(group.app)
app.add_typer(ingest.app, name="ingest", rich_help_panel=OPERATE)
app.add_typer(study.app, name="study", rich_help_panel=LEARN)


@app.callback()
def privaudit(
    context: typer.Context,
    *,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error."),
    ] = False,
) -> None:
    """Nightly observational audits of differential-privacy guarantees for labels.

    For each model and day, privaudit proves a lower bound on the privacy loss epsilon from the
    trained model itself, holds it against what the owner declared, and commits one record.

    **Begin**: privaudit demo shows all of it on real data. For your own lake: privaudit init,
    privaudit check, then privaudit run for one model and day, and docs/operations.md for every
    night.

    **Output**: tables; --json prints JSON instead. Progress goes to standard error: bars on a
    terminal, else one JSON line per event.

    **Exit codes**: 0 fine; 1 violated (check, overdue: something failed or is missing);
    2 no conclusion; 3 error; 64 wrong usage; 130 interrupted.
    """
    context.obj = debug


def main() -> None:
    """Run the command line; an error is one sentence and exit code 3, unless --debug."""
    debug = "--debug" in sys.argv[1:]
    try:
        code = app(standalone_mode=False, prog_name="privaudit")
    except _UsageError as error:
        _print_usage(error)
        sys.exit(_USAGE)
    except typer.Abort:
        sys.exit(130)
    except AuditError as error:
        if debug:
            raise
        typer.echo(f"privaudit: {plain_text(str(error))}", err=True)
        sys.exit(_ERROR)
    except Exception as error:
        if debug:
            raise
        what = plain_text(" ".join(str(error).split())) or "no message"
        typer.echo(
            f"privaudit: {type(error).__name__}: {what} (privaudit --debug shows where).", err=True
        )
        sys.exit(_ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def _print_usage(error: Exception) -> None:
    from typer.rich_utils import rich_format_error  # noqa: PLC0415

    rich_format_error(error)  # type: ignore[arg-type]

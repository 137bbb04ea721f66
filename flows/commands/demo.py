"""`privaudit demo`."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

from flows.commands.options import LEARN, parse_day
from flows.commands.printing import console, print_table, quiet

app = typer.Typer()


@app.command(rich_help_panel=LEARN)
def demo(
    start: Annotated[
        dt.date, typer.Option(parser=parse_day, metavar="DATE", help="First audited day of 2013.")
    ] = dt.date(2013, 2, 1),
    days: Annotated[int, typer.Option(help="How many consecutive days are audited.")] = 14,
    folder: Annotated[pathlib.Path, typer.Option(help="Where everything is kept.")] = pathlib.Path(
        "demo"
    ),
) -> None:
    """Audit three models on real days: lake, training, nightly audits, report.

    Example: privaudit demo --start 2013-06-01 --days 21
    """
    quiet()
    from flows.commands.tables import audits_table
    from flows.learn.demo import run_demo

    out = console()
    result = run_demo(folder=folder, start=start, days=days, console=out)
    print_table(audits_table(result.audits, width=out.width), out)
    out.print(
        f"{result.rows:,} labelled flights; {result.dropped:,} without an arrival delay dropped."
    )
    out.print(f"Report: {result.report}", soft_wrap=True, highlight=False)

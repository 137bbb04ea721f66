"""`privaudit demo`."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

from flows.commands.options import LEARN, CsvOption, JsonOption, day_option
from flows.commands.printing import Form, begin_prefect, form_of, print_audits

app = typer.Typer()


@app.command(rich_help_panel=LEARN)
def demo(
    start: Annotated[dt.date, day_option("First audited day of 2013.")] = dt.date(2013, 2, 1),
    days: Annotated[int, typer.Option(help="Number of consecutive days to audit.")] = 14,
    folder: Annotated[
        pathlib.Path, typer.Option(help="Folder for the lake, the warehouse and the report.")
    ] = pathlib.Path("demo"),
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit three models on real days: lake, training, nightly audits, report.

    One declares nothing, one keeps its epsilon of 2, and one drops its privatisation in the middle,
    which is found the same night. Interrupted, the same command goes on where it was.

    Example: privaudit demo --start 2013-06-01 --days 21
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    begin_prefect()
    from flows.learn.demo import run_demo, sentences

    result = run_demo(folder=folder, start=start, days=days)
    print_audits(result.audits, form)
    aside = form is not Form.TABLE
    for sentence in sentences(result):
        typer.echo(sentence, err=aside)
    typer.echo(
        f"{result.rows:,} labelled flights; {result.dropped:,} without an arrival delay dropped.",
        err=aside,
    )
    typer.echo(f"Report: {result.report}", err=aside)

"""The command `privaudit`."""

import datetime as dt
import json
import logging
import os
import pathlib
import sys
from typing import Annotated

import polars as pl
import typer
from rich.console import Console

from flows.settings import load_settings
from flows.tables import audits_table, frame_table
from privcore.exceptions import AuditError
from workers.warehouse import Warehouse
from workers.windows import with_windows

app = typer.Typer(
    name="privaudit",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Nightly observational audits of differential-privacy guarantees for labels.",
)

study = typer.Typer(no_args_is_help=True, help="Compute published figures and tables anew.")
app.add_typer(study, name="study")

ConfigOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--config",
        envvar="PRIVAUDIT_CONFIG",
        help="Settings file; privaudit.toml in the current folder by default.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _day(text: str | dt.date) -> dt.date:
    if isinstance(text, dt.date):  # typer parses defaults too
        return text
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day: write it as YYYY-MM-DD.") from None


@app.command()
def demo(
    start: Annotated[
        dt.date, typer.Option(parser=_day, metavar="DATE", help="First audited day of 2013.")
    ] = dt.date(2013, 2, 1),
    days: Annotated[int, typer.Option(help="How many consecutive days are audited.")] = 14,
    folder: Annotated[pathlib.Path, typer.Option(help="Where everything is kept.")] = pathlib.Path(
        "demo"
    ),
) -> None:
    """Audit three models on real days: lake, training, nightly audits, report.

    Example: privaudit demo --start 2013-06-01 --days 21
    """
    _quiet()
    from flows.demo import run_demo  # noqa: PLC0415  # Prefect, Ray and CatBoost take seconds

    console = Console()
    result = run_demo(folder=folder, start=start, days=days, console=console)
    console.print(audits_table(result.audits, width=console.width))
    console.print(
        f"{result.rows:,} labelled flights; {result.dropped:,} without an arrival delay dropped."
    )
    console.print(f"Report: {result.report}", soft_wrap=True, highlight=False)


@app.command()
def run(
    model: Annotated[str, typer.Option(help="Name of the model.")],
    day: Annotated[dt.date, typer.Option(parser=_day, metavar="DATE", help="Audited day.")],
    config: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Audit one model on one day, on demand, and commit the record.

    Exit code: 0 consistent or undeclared, 1 violated, 2 not evaluable or proxy unfaithful,
    3 error.

    Example: privaudit run --model delays-private --day 2013-02-03
    """
    _quiet()
    from flows.nightly import AuditsFailedError, exit_code, nightly_audit  # noqa: PLC0415

    settings = load_settings(config)
    try:
        rows = nightly_audit(day=day, models=[model], settings=str(config) if config else None)
    except AuditsFailedError as error:
        rows = error.rows
    committed = pl.DataFrame([row.model_dump() for row in rows], infer_schema_length=None)
    current = (
        Warehouse(settings.warehouse)
        .scan("audits")
        .filter(pl.col("audit_id").is_in(committed["audit_id"].to_list()))
        .collect()
    )
    _print_audits(current, as_json=as_json)
    for row in rows:
        typer.echo(row.reason, err=as_json)
    raise typer.Exit(exit_code(rows))


@app.command()
def show(
    config: ConfigOption = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every current record, not only the latest night.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the audits of the latest night.

    Example: privaudit show --all --json
    """
    warehouse = Warehouse(load_settings(config).warehouse)
    audits = with_windows(warehouse, warehouse.current())
    if not every and audits.height:
        audits = audits.filter(pl.col("day") == audits["day"].max())
    _print_audits(audits, as_json=as_json)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="A query over the tables of docs/architecture.md.")],
    config: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Ask the warehouse in SQL (DuckDB's dialect).

    Example: privaudit sql "select model, max(epsilon_lower) from audits group by model"
    """
    frame = Warehouse(load_settings(config).warehouse).sql(query)
    if as_json:
        _print_json(frame)
    else:
        Console().print(frame_table(frame))


@app.command()
def report(config: ConfigOption = None) -> None:
    """Write the report from the warehouse again.

    Example: privaudit report --config demo/privaudit.toml
    """
    from flows.report import write_report  # noqa: PLC0415  # drawing libraries take a second

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    promises = warehouse.scan("audit_promises").collect()
    path = write_report(warehouse.current(), settings.report, promises=promises)
    typer.echo(f"Report: {path}")


@app.command()
def explain(
    epsilon: Annotated[float | None, typer.Option(help="The guarantee's epsilon.")] = None,
    delta: Annotated[float, typer.Option(help="The guarantee's delta.")] = 0.0,
    neighbors: Annotated[
        str | None, typer.Option(help="replace (the default) or add_remove.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Account for a mechanism, by a manifest's name for it.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One of its parameters.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="Probability that a blind guess is right.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="Records that an attacker guesses on.")
    ] = None,
    guesses: Annotated[int | None, typer.Option(help="How many of them; all by default.")] = None,
    secret_bits: Annotated[float | None, typer.Option(help="Length of a random secret.")] = None,
    advantage: Annotated[
        float, typer.Option(help="Advantage over a blind guess that is still fine.")
    ] = 0.05,
    confidence: Annotated[
        float, typer.Option(help="Confidence of the limit on correct guesses.")
    ] = 0.95,
    *,
    as_json: JsonOption = False,
) -> None:
    """Say what a guarantee promises: the most that any attacker can achieve.

    Examples: privaudit explain --epsilon 4 --delta 1e-5;
    privaudit explain --epsilon 1 --records 10000 --prior 0.5;
    privaudit explain --epsilon 4 --secret-bits 20;
    privaudit explain --mechanism dp_sgd --parameter noise_multiplier=1.1
    --parameter sampling_rate=0.01 --parameter steps=1000 --delta 1e-5
    """
    from flows import explain as words  # noqa: PLC0415  # the mathematics takes a second

    promised = words.promised_by(
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        mechanism=mechanism,
        parameters=parameter or [],
    )
    question = words.Question(
        promised,
        prior=prior,
        records=records,
        guesses=guesses,
        secret_bits=secret_bits,
        advantage=advantage,
        confidence=confidence,
    )
    answers = words.explain(question)
    if as_json:
        typer.echo(words.as_json(promised, answers))
        return
    console = Console()
    console.print(words.guarantee_sentence(promised), highlight=False)
    console.print(words.answers_table(answers))
    for answer in answers:
        if answer.sentence:
            console.print(f"- {answer.sentence}", highlight=False)


@study.command()
def bounds(
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the data (CSV) and the drawings (SVG).")
    ],
) -> None:
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """
    from rich.progress import Progress  # noqa: PLC0415

    from flows.study.bounds import STEPS, published_table, study_bounds  # noqa: PLC0415

    console = Console()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("Figures", total=STEPS)
        found = study_bounds(output, advance=lambda: progress.advance(bar))
    console.print(published_table(found.published))
    for file in found.files:
        console.print(str(file), soft_wrap=True, highlight=False)


def main() -> None:
    """Run the command line; an error made on purpose is one sentence and exit code 3."""
    try:
        app()
    except AuditError as error:
        typer.echo(f"privaudit: {error}", err=True)
        sys.exit(3)


def _print_audits(audits: pl.DataFrame, *, as_json: bool) -> None:
    if as_json:
        _print_json(audits)
    else:
        console = Console()
        console.print(audits_table(audits, width=console.width))


def _print_json(frame: pl.DataFrame) -> None:
    typer.echo(json.dumps(frame.to_dicts(), default=str, indent=2))


def _quiet() -> None:
    """Keep Prefect's and its server's routine messages away from a person's terminal."""
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "ERROR")
    logging.getLogger("httpx").setLevel(logging.ERROR)

"""`privaudit study`: published figures and tables, computed anew."""

import contextlib
import datetime as dt
import pathlib
from collections.abc import Iterator
from typing import Annotated

import typer

from flows.commands.options import CsvOption, JsonOption, parse_day
from flows.commands.printing import Form, console, form_of, print_rows, print_table, shown_progress
from flows.commands.printing_studies import print_study

app = typer.Typer(no_args_is_help=True, help="Compute published figures and tables anew.")

OutputOption = Annotated[
    pathlib.Path,
    typer.Option(help="Folder for tables (CSV), drawings (SVG) and what was computed so far."),
]
ScaleOption = Annotated[
    float, typer.Option(help="Share of the full size: 0.02 is a glance, 1 takes under an hour.")
]


@app.command()
def bounds(
    output: Annotated[
        pathlib.Path, typer.Option(help="Folder for the data (CSV) and the drawings (SVG).")
    ],
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from rich.console import Console
    from rich.progress import Progress

    from flows.study.bounds import STEPS, study_bounds
    from flows.study.printing import published_rows, published_table

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("Figures", total=STEPS)
        found = study_bounds(output, advance=lambda: progress.advance(bar))
    if form is not Form.TABLE:
        print_rows(published_rows(found.published), form)
        return
    out = console()
    print_table(published_table(found.published, title="Printed numbers and ours"), out)
    for file in found.files:
        out.print(str(file), soft_wrap=True, highlight=False)


@app.command("randomized-response")
def randomized_response(
    output: OutputOption,
    scale: ScaleOption = 1.0,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure randomized response, whose epsilon is known: section 6.6 of the game's paper.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study randomized-response --scale 0.02 --output rr
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.randomized_response_results import (
        run_randomized_response,
        write_randomized_response,
    )

    with _resumable(output), shown_progress():
        findings = run_randomized_response(output, scale=scale)
    print_study(write_randomized_response(findings, output, width=console().width), form)


@app.command()
def criteo(
    output: OutputOption,
    scale: Annotated[
        float,
        typer.Option(
            help="Share of the paper's million clicks a day that are made up: 0.005 is a glance, "
            "0.25 takes under an hour, 1 is the paper's size and takes hours."
        ),
    ] = 0.25,
    lake: Annotated[
        str | None,
        typer.Option(
            help="A lake that `privaudit ingest criteo` wrote; the models go there too. Without "
            "one, clicks are made up, and every output says synthetic."
        ),
    ] = None,
    dataset: Annotated[str, typer.Option(help="Its dataset.")] = "criteo",
    start: Annotated[
        dt.date, typer.Option(parser=parse_day, metavar="DATE", help="The proxy's day.")
    ] = dt.date(2026, 1, 1),
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train with every mechanism and epsilon, and audit: tables 2 and 5 of the game's paper.

    Finished models are kept below the output folder and not trained again.

    Example: privaudit study criteo --scale 0.02 --output criteo
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.criteo_results import run_criteo, write_criteo

    with _resumable(output), shown_progress():
        findings = run_criteo(output, scale=scale, lake=lake, dataset=dataset, start=start)
    print_study(write_criteo(findings, output, width=console().width), form)


@app.command()
def comparison(
    output: OutputOption,
    scale: ScaleOption = 1.0,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Hold label inference against membership inference on the same models.

    Finished models are kept below the output folder and not trained again.

    Example: privaudit study comparison --scale 0.02 --output comparison
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.comparison_results import run_comparison, write_comparison

    with _resumable(output), shown_progress():
        findings = run_comparison(output, scale=scale)
    print_study(write_comparison(findings, output), form)


@app.command()
def relaxations(
    table: Annotated[
        str,
        typer.Option(
            help="The UCI Bank Marketing data, bank-full, as Parquet or CSV: path or URI."
        ),
    ],
    output: OutputOption,
    scale: ScaleOption = 1.0,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read a whole table that individual differential privacy protects: a paper's Tables 1 to 4.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study relaxations --table bank-full.parquet --output relaxations
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.relaxations_results import run_relaxations, write_relaxations

    with _resumable(output), shown_progress():
        findings = run_relaxations(table, output, scale=scale)
    print_study(write_relaxations(findings, output), form)


@app.command()
def secrets(
    output: OutputOption,
    scale: ScaleOption = 1.0,
    names: Annotated[
        str | None,
        typer.Option(
            help="CSV or Parquet file with a column 'probability', one row per name: the prior of "
            "names, of which the ten most probable are used. Zipf's law stands in without it."
        ),
    ] = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Attack language models that were trained on a secret: Figure 3 of two papers.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study secrets --scale 0.1 --output secrets
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.secrets_results import run_secrets, write_secrets

    with _resumable(output), shown_progress():
        findings = run_secrets(output, scale=scale, names=names)
    print_study(write_secrets(findings, output), form)


@app.command()
def marginals(
    table: Annotated[
        str,
        typer.Option(
            help="The American Community Survey's persons, or another table without missing "
            "values, as Parquet or CSV: path or URI."
        ),
    ],
    output: OutputOption,
    scale: ScaleOption = 1.0,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Guess secret columns of a table from its noisy marginals: Figures 4 to 7 of a paper.

    Finished runs are kept below the output folder and not computed again.

    Example: privaudit study marginals --table acs.parquet --output marginals
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.marginals_results import run_marginals, write_marginals

    with _resumable(output), shown_progress():
        findings = run_marginals(table, output, scale=scale)
    print_study(write_marginals(findings, output), form)


@app.command()
def reidentification(
    output: OutputOption,
    scale: ScaleOption = 1.0,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tell who took part from outputs made re-identification private, with known halves.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study reidentification --scale 0.1 --output reidentification
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.study.reidentification_results import run_reidentification, write_reidentification

    with _resumable(output), shown_progress():
        findings = run_reidentification(output, scale=scale)
    print_study(write_reidentification(findings, output), form)


@contextlib.contextmanager
def _resumable(output: pathlib.Path) -> Iterator[None]:
    """Say to who interrupts a study what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"privaudit: interrupted; the parts that were finished are kept in {output}/cells, "
        typer.echo(f"{kept}and the same command goes on from there.", err=True)
        raise

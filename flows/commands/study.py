"""`privaudit study`: published figures and tables, computed anew."""

import contextlib
import datetime as dt
import pathlib
from collections.abc import Iterator
from typing import Annotated

import typer

from flows.commands.options import parse_day
from flows.commands.printing import console, print_table, shown_progress

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
) -> None:
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """
    from rich.progress import Progress

    from flows.study.bounds import STEPS, study_bounds
    from flows.study.printing import published_table

    out = console()
    with Progress(console=out, transient=True) as progress:
        bar = progress.add_task("Figures", total=STEPS)
        found = study_bounds(output, advance=lambda: progress.advance(bar))
    print_table(published_table(found.published, title="Printed numbers and ours"), out)
    for file in found.files:
        out.print(str(file), soft_wrap=True, highlight=False)


@app.command("randomized-response")
def randomized_response(output: OutputOption, scale: ScaleOption = 1.0) -> None:
    """Measure randomized response, whose epsilon is known: section 6.6 of the game's paper.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study randomized-response --scale 0.02 --output rr
    """
    from flows.study.randomized_response_results import (
        run_randomized_response,
        show_randomized_response,
    )

    with _resumable(output), shown_progress():
        findings = run_randomized_response(output, scale=scale)
    show_randomized_response(findings, output, console())


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
) -> None:
    """Train with every mechanism and epsilon, and audit: tables 2 and 5 of the game's paper.

    Finished models are kept below the output folder and not trained again.

    Example: privaudit study criteo --scale 0.02 --output criteo
    """
    from flows.study.criteo_results import run_criteo, show_criteo

    with _resumable(output), shown_progress():
        findings = run_criteo(output, scale=scale, lake=lake, dataset=dataset, start=start)
    show_criteo(findings, output, console())


@app.command()
def comparison(output: OutputOption, scale: ScaleOption = 1.0) -> None:
    """Hold label inference against membership inference on the same models.

    Finished models are kept below the output folder and not trained again.

    Example: privaudit study comparison --scale 0.02 --output comparison
    """
    from flows.study.comparison_results import run_comparison, show_comparison

    with _resumable(output), shown_progress():
        findings = run_comparison(output, scale=scale)
    show_comparison(findings, output, console())


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
) -> None:
    """Read a whole table that individual differential privacy protects: a paper's Tables 1 to 4.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study relaxations --table bank-full.parquet --output relaxations
    """
    from flows.study.relaxations_results import run_relaxations, show_relaxations

    with _resumable(output), shown_progress():
        findings = run_relaxations(table, output, scale=scale)
    show_relaxations(findings, output, console())


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
) -> None:
    """Attack language models that were trained on a secret: Figure 3 of two papers.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study secrets --scale 0.1 --output secrets
    """
    from flows.study.secrets_results import run_secrets, show_secrets

    with _resumable(output), shown_progress():
        findings = run_secrets(output, scale=scale, names=names)
    show_secrets(findings, output, console())


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
) -> None:
    """Guess secret columns of a table from its noisy marginals: Figures 4 to 7 of a paper.

    Finished runs are kept below the output folder and not computed again.

    Example: privaudit study marginals --table acs.parquet --output marginals
    """
    from flows.study.marginals_results import run_marginals, show_marginals

    with _resumable(output), shown_progress():
        findings = run_marginals(table, output, scale=scale)
    show_marginals(findings, output, console())


@app.command()
def reidentification(output: OutputOption, scale: ScaleOption = 1.0) -> None:
    """Tell who took part from outputs made re-identification private, with known halves.

    Finished parts are kept below the output folder and not computed again.

    Example: privaudit study reidentification --scale 0.1 --output reidentification
    """
    from flows.study.reidentification_results import run_reidentification, show_reidentification

    with _resumable(output), shown_progress():
        findings = run_reidentification(output, scale=scale)
    show_reidentification(findings, output, console())


@contextlib.contextmanager
def _resumable(output: pathlib.Path) -> Iterator[None]:
    """Say to who interrupts a study what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"privaudit: interrupted; the parts that were finished are kept in {output}/cells, "
        typer.echo(f"{kept}and the same command goes on from there.", err=True)
        raise

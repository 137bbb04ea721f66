"""Published data into the lake: `privaudit ingest`."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

from flows.commands.options import ConfigOption, day_option
from flows.commands.printing import console

app = typer.Typer(no_args_is_help=True, help="Bring published data into the lake.")


@app.callback()
def ingest() -> None:
    """Bring published data into the lake."""


@app.command()
def criteo(
    files: Annotated[
        list[pathlib.Path] | None, typer.Argument(help="Further files, one per day.")
    ] = None,
    first: Annotated[
        pathlib.Path | None,
        typer.Option("--input", help="The first day's file (.gz or plain), as published."),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows of each day.")
    ] = 1_000_000,
    start: Annotated[dt.date, day_option("Date of the first day.")] = dt.date(2026, 1, 1),
    synthetic: Annotated[
        int, typer.Option(min=0, help="Number of days of made-up clicks, instead of files.")
    ] = 0,
    sampled: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=1.0,
            help="Share of each 100,000 lines that is drawn, as in the published code of Wu et "
            "al. 2023. With 1 a day is the first rows of its file.",
        ),
    ] = 0.05,
    seed: Annotated[
        int, typer.Option(help="Seed of the draw, of the split, and of what is made up.")
    ] = 0,
    config: ConfigOption = None,
) -> None:
    """Stream days of Criteo's 1TB Click Logs into the lake; 80/4/16% train/validation/holdout.

    Malformed rows are counted and left out; a day with more than 1% of them is refused.

    Example: privaudit ingest criteo --input day_0.gz day_1.gz --rows 1000000
    """
    from flows.settings import load_settings
    from workers.datasets.criteo import ingest_day
    from workers.datasets.synthetic_criteo import write_synthetic_day
    from workers.lake.layout import Lake

    paths = [*([first] if first else []), *(files or [])]
    if bool(paths) == bool(synthetic):
        raise typer.BadParameter("give the days' files to --input, or --synthetic a number of days")
    lake, kind = Lake(load_settings(config).lake), "rows"
    for number in range(max(len(paths), synthetic)):
        day = start + dt.timedelta(days=number)
        if synthetic:
            done = write_synthetic_day(lake, day, number=number, rows=rows, seed=seed)
            kind = "synthetic rows, made up in Criteo's shape"
        else:
            done = ingest_day(lake, paths[number], day, rows=rows, seed=seed, sampled=sampled)
        line = (
            f"{done.dataset} {day}: {done.rows:,} {kind}, {done.clicks / done.rows:.2%} clicks; "
            f"{done.malformed:,} malformed left out."
        )
        console().print(line, soft_wrap=True, highlight=False)

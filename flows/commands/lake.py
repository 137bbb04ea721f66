"""Contents of the lake: `privaudit manifest`, `train` and `ingest`."""

import datetime as dt
import json
import pathlib
from typing import Annotated

import typer

from flows.commands.options import OPERATE, ConfigOption, day_option
from flows.commands.printing import console, quiet, working

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def manifest(
    model_file: Annotated[
        pathlib.Path | None,
        typer.Argument(
            help="The model (.cbm, .ubj, .txt of LightGBM, .onnx); or a lake's folder: then "
            "manifest.json is written beside each model in it that has none."
        ),
    ] = None,
    table: Annotated[
        pathlib.Path | None, typer.Option(help="A Parquet file of the day's labels.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label's column.")] = None,
    model: Annotated[
        str, typer.Option(help="Name of the model; its folder in the lake.")
    ] = "model",
    day: Annotated[dt.date | None, day_option("Day it was trained on.")] = None,
    dataset: Annotated[
        str, typer.Option(help="Name of the labels' folder in the lake.")
    ] = "labels",
    epsilon: Annotated[float | None, typer.Option(help="Declared epsilon, if any.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of the declaration.")] = 0.0,
    unit: Annotated[
        str, typer.Option(help="Unit that the guarantee protects: a record, or a person's column.")
    ] = "record",
    declared_by: Annotated[
        str, typer.Option(help="Person or team that makes the declaration.")
    ] = "",
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of manifests, and no manifest.")
    ] = False,
) -> None:
    """Print a manifest.json for a model file, with every field, to be looked through and stored.

    Features, classes and digest are the model's own; trained_on says the one day: correct it where
    it was trained on more. Of a lake's folder, model and day are the folders' names.

    Examples: privaudit manifest model.cbm --table labels.parquet --label late --model delays
    --day 2026-03-02 --dataset flights --epsilon 2 > manifest.json; privaudit manifest lake --label
    late --dataset flights
    """
    if schema:
        from workers.lake.manifest import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    from workers.sources.proposal import ProposedDeclaration, proposed_manifest, write_manifests

    declaration = None
    if epsilon is not None:
        declaration = ProposedDeclaration(epsilon, delta, unit, declared_by)
    if model_file is not None and model_file.is_dir():
        if table or day or label is None:
            raise typer.BadParameter("of a lake's folder give --label, and no --table or --day.")
        for written in write_manifests(
            model_file, dataset=dataset, label=label, declaration=declaration
        ):
            typer.echo(f"Wrote {written}.")
        return
    if model_file is None or table is None or label is None or day is None:
        raise typer.BadParameter("give MODEL_FILE, --table, --label and --day; or --schema.")
    proposed = proposed_manifest(
        model_file,
        table,
        model=model,
        day=day,
        dataset=dataset,
        label=label,
        declaration=declaration,
    )
    typer.echo(json.dumps(proposed, indent=2))


def parse_shares(text: str) -> tuple[float, ...]:
    """Return numbers written with commas between them."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers: write numbers like 0.97,0.03.",
            param_hint="--prior",
        ) from None


@app.command(rich_help_panel=OPERATE)
def train(
    model: Annotated[str, typer.Option(help="Name of the model; its folder in the lake.")],
    day: Annotated[dt.date, day_option("Day to train on.")],
    dataset: Annotated[str, typer.Option(help="Name of the label partition in the lake.")],
    label: Annotated[str, typer.Option(help="The label's column.")],
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="lp-1st, lp-1st-domain-prior, lp-1st-noise-correction, lp-2st, lp-mst, "
            "pate-laplace, pate-gaussian or alibi; without one, labels stay as they are."
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="The mechanism's epsilon; inf adds no noise.")
    ] = float("inf"),
    stages: Annotated[int, typer.Option(help="Stages of lp-mst.")] = 3,
    teachers: Annotated[int, typer.Option(help="Teachers of PATE.")] = 100,
    queries: Annotated[int, typer.Option(help="Answers that PATE's student learns from.")] = 200,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="P,P,...",
            help="Class probabilities for lp-1st-domain-prior, in the manifest's order of classes "
            "(sorted as text): known from elsewhere, never computed from these labels. Without "
            "them they are measured, with 0.05 of the budget.",
        ),
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit that the guarantee protects.")] = "record",
    iterations: Annotated[int, typer.Option(help="CatBoost's iterations.")] = 100,
    depth: Annotated[int, typer.Option(help="CatBoost's depth.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="CatBoost's learning rate.")] = 0.4,
    seed: Annotated[int, typer.Option(help="Seed of the noise and of CatBoost.")] = 0,
    config: ConfigOption = None,
) -> None:
    """Train one model on one day's labels, made private, into the lake.

    Every column of the partition but the label and `split` is a feature. The manifest declares
    what the mechanism's parameters account for, so that `privaudit run` can audit the model once
    the day before has been trained too.

    Example: privaudit train --model trial --day 2013-02-02 --dataset flights --label late
    --mechanism lp-2st --epsilon 2
    """
    quiet()
    from flows.learn.try_mechanism import Trial, train_trial
    from flows.settings import load_settings

    trial = Trial(
        model=model,
        day=day,
        dataset=dataset,
        label=label,
        mechanism=mechanism,
        epsilon=epsilon,
        stages=stages,
        teachers=teachers,
        queries=queries,
        prior=None if prior is None else parse_shares(prior),
        unit=unit,
        parameters={"iterations": iterations, "depth": depth, "learning_rate": learning_rate},
        seed=seed,
    )
    with working(f"Training {model} on {day}"):
        lines = train_trial(load_settings(config), trial)
    for line in lines:
        console().print(line, soft_wrap=True, highlight=False)


ingest_app = typer.Typer(no_args_is_help=True, help="Bring published data into the lake.")


@ingest_app.callback()
def ingest() -> None:
    """Bring published data into the lake."""


@ingest_app.command()
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
    from workers.datasets.criteo import ingest_day, write_synthetic_day
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

"""Try a mechanism before deploying it: `privaudit train`."""

import datetime as dt
from typing import Annotated

import typer

from flows.commands.options import OPERATE, ConfigOption, day_option
from flows.commands.printing import console, quiet, working

app = typer.Typer()


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

"""Decoy labels for who may touch training: `privaudit decoys`."""

import datetime as dt
import secrets
from typing import Annotated

import typer

from flows.commands.options import OPERATE, ConfigOption, day_option
from flows.commands.printing import quiet

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def decoys(
    model: Annotated[str, typer.Option(help="Name of the model; its folder in the lake.")],
    day: Annotated[dt.date, day_option("Day about to be trained on.")],
    share: Annotated[
        float,
        typer.Option(
            help="Share of the training records that are drawn; at most half get a wrong label."
        ),
    ] = 0.02,
    into: Annotated[
        str | None, typer.Option(help="Label dataset to write; the model's with -decoys behind.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Draw decoy labels before training, so that the audit need assume nothing.

    Copies the day's labels into another dataset. Of a few training records a second label is drawn
    from yesterday's model, and a coin decides which of the two is trained on; the other stands in
    the column `decoy`. Train on the copy, and put the printed lines into the manifest: they commit
    to the coins, and the audit then plays on these records with the coin as prior.

    Example: privaudit decoys --model ads-ctr --day 2026-03-02 --share 0.02
    """
    quiet()
    import numpy as np

    from flows.settings import load_settings
    from workers.lake.layout import Lake
    from workers.training.drawn_decoys import write_decoys

    lake = Lake(load_settings(config).lake)
    # No one may foresee the coins, so they have no seed that could become known.
    random = np.random.default_rng(secrets.randbits(256))
    drawn = write_decoys(lake, model, day, share=share, into=into, random=random)
    typer.echo(
        f"Labels of {day} to train on are in the dataset {drawn.dataset}: {drawn.decoys} of "
        f"{drawn.records} training records are decoys, {drawn.telling} with two different labels, "
        f"drawn from {model} of {drawn.proxy_day}.\n"
        "Train on them, never on the column decoy, and put into the manifest:\n"
        f'  "dataset": "{drawn.dataset}",\n'
        f'  "decoys": {drawn.manifest.model_dump_json()}\n'
        "Note the commitment where training cannot change it (a ticket, a log) before it begins."
    )

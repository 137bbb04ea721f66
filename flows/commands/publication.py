"""`privaudit publish` and `privaudit publication-key`: what may leave the lake's side."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

from flows.commands.options import LOOK, OPERATE, ConfigOption, parse_day
from flows.commands.printing import working

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def publication_key(
    file: Annotated[pathlib.Path, typer.Argument(help="File for the key.")] = pathlib.Path(
        "publication.key"
    ),
) -> None:
    """Make the key of public statements' noise, in a file that its owner alone may read.

    Keep it: with another key nothing that was published can be recomputed.

    Example: privaudit publication-key publication.key
    """
    from workers.publication.key import make_key

    make_key(file)
    typer.echo(f"Wrote {file}: set publication.key_file to it, and keep a copy in a safe place.")


@app.command(rich_help_panel=LOOK)
def publish(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    day: Annotated[dt.date, typer.Argument(parser=parse_day, metavar="DAY", help="YYYY-MM-DD.")],
    *,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Publish another revision, say after labels were corrected. It has noise of its "
            "own and costs each label as much as the first.",
        ),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Publish the statement of a day's current audit; once published, it is returned as it is.

    Audits publish theirs themselves. This is for days that were audited before [publication] was
    set, with a plan that has epsilon_public, and for a revision.

    Examples: privaudit publish ads-ctr 2026-03-02; privaudit publish ads-ctr 2026-03-02 --again
    """
    with working("Publishing the statement"):
        from flows.run.statements import publish_current
        from flows.settings import load_settings
        from workers.publication.statement_conclusion import conclusion_of

        settings = load_settings(config)
        settings.check_listed([model])
        made = publish_current(model, day, settings, again=again)
    typer.echo(f"{made.statement_id} (revision {made.revision}): {conclusion_of(made)}")


@app.command(rich_help_panel=LOOK)
def opening(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    day: Annotated[dt.date, typer.Argument(parser=parse_day, metavar="DAY", help="YYYY-MM-DD.")],
    config: ConfigOption = None,
) -> None:
    """Print the secret by which an auditor recomputes the day's statement from its exact record.

    Give it only to people who may read the labels: with it the noise can be taken away. It opens
    this statement and no other.

    Example: privaudit opening ads-ctr 2026-03-02
    """
    from flows.run.statements import opening_of_current
    from flows.settings import load_settings

    typer.echo(opening_of_current(model, day, load_settings(config)))

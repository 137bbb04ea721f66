"""`privaudit publish` and `privaudit publication-key`: results for people without labels."""

import pathlib
from typing import Annotated

import typer

from flows.commands.options import LOOK, OPERATE, ConfigOption
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
def publish(config: ConfigOption = None) -> None:
    """Publish a statement of every audited day that has none yet, and write their page anew.

    A statement is differentially private for labels, and is charged to them. Run it after each
    night. A day whose labels were audited again keeps its first statement.

    Exit code: 0 all is published, 2 some statement would cost a label too much, 3 error.

    Example: privaudit publish --config demo/privaudit.toml
    """
    with working("Publishing"):
        from flows.publication.publishing import publish_all
        from flows.settings import load_settings
        from workers.publication.statement_conclusion import conclusion_of

        done = publish_all(load_settings(config))
    for made in done.made:
        typer.echo(f"{made.day} {made.model}: {conclusion_of(made)} Statement {made.statement_id}.")
    for error in done.refused:
        typer.echo(str(error), err=True)
    typer.echo(f"{len(done.made)} new statements. Page: {done.page}")
    raise typer.Exit(2 if done.refused else 0)

"""The hand-over: `privaudit publish`, `make-key`, `attest` and `attest-key`."""

import datetime as dt
import pathlib
from typing import Annotated

import typer

from flows.commands.options import LOOK, OPERATE, ConfigOption, parse_day
from flows.commands.printing import working
from flows.files import replace_file

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def make_key(
    file: Annotated[pathlib.Path, typer.Argument(help="File for the key.")],
) -> None:
    """Make a random key, of public statements' noise or of a holdout, in a file of mode 600.

    Keep it: with another key no statement, and no audit of such a holdout, can be repeated.

    Example: privaudit make-key publication.key
    """
    from workers import plain_files

    plain_files.make_key(file)
    typer.echo(
        f"Wrote {file}: set publication.key_file or labels.holdout_key_file to it, and keep a copy "
        "in a safe place."
    )


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
        from workers.publication.statements import sentence_of

        done = publish_all(load_settings(config))
    for made in done.made:
        typer.echo(f"{made.day} {made.model}: {sentence_of(made)} Statement {made.statement_id}.")
    for error in done.refused:
        typer.echo(str(error), err=True)
    typer.echo(f"{len(done.made)} new statements. Page: {done.page}")
    raise typer.Exit(2 if done.refused else 0)


@app.command(rich_help_panel=OPERATE)
def attest_key(
    file: Annotated[pathlib.Path, typer.Argument(help="File for the private key.")],
) -> None:
    """Make an Ed25519 key pair that signs evidence: FILE of mode 600, and FILE.pub to give away.

    Example: privaudit attest-key evidence.pem
    """
    from workers.evidence.attestation import make_key_pair, read_public_key

    public = make_key_pair(file)
    typer.echo(
        f"Wrote the private key {file} and the public key {public} "
        f"(id {read_public_key(public).keyid}). Give the public key to those who verify evidence, "
        "over a way that they trust."
    )


@app.command(rich_help_panel=LOOK)
def attest(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    day: Annotated[dt.date, typer.Argument(parser=parse_day, metavar="DAY", help="YYYY-MM-DD.")],
    *,
    key: Annotated[
        str, typer.Option(metavar="FILE", help="Private key that signs: a file of mode 600.")
    ],
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Sign the exact record instead, for people who may read results about labels.",
        ),
    ] = False,
    out: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE", help="The bundle; MODEL-DAY.bundle.json by default."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write the published statement about a model's day as signed evidence.

    The bundle is an in-toto statement in a signed envelope, which says whether it is about a
    public statement or an exact record. privaudit verify --bundle checks it without this machine.

    Examples: privaudit attest ads-ctr 2026-03-02 --key evidence.pem;
    privaudit attest ads-ctr 2026-03-02 --exact --key evidence.pem
    """
    path = out or pathlib.Path(f"{model}-{day}.bundle.json")
    with working("Signing the evidence"):
        from flows.publication.publishing import record_about, statement_about
        from flows.settings import load_settings
        from workers.evidence.attestation import expiry, make_bundle, read_private_key, words_of

        made = (record_about if exact else statement_about)(model, day, load_settings(config))
        _write(path, make_bundle(made, read_private_key(key)))
    typer.echo(f"{path}: {words_of(made)['verdict']}")
    if expiry(made) <= dt.datetime.now(dt.UTC):
        typer.echo(
            f"It expired on {expiry(made):%Y-%m-%d}: it still verifies, and privaudit verify says "
            "that it is too old.",
            err=True,
        )


def _write(path: pathlib.Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from privcore.exceptions import TerminalError

    try:
        replace_file(path, content)
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be written ({error.strerror}): give another path."
        ) from None

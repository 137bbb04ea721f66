"""`privaudit attest`, `attest-key` and `attest-log`: evidence that is handed over."""

import datetime as dt
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LOOK, OPERATE, ConfigOption, parse_day
from flows.commands.printing import working
from flows.files import LARGEST, replace_file

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer

    from flows.settings import Settings
    from workers.publication.erased import Published
    from workers.publication.statement_store import Statements

app = typer.Typer()
KeyOption = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="FILE|URI",
        help="Private key that signs: a file of mode 600, or the URI of a key service, for "
        "example awskms:alias/evidence.",
    ),
]
PublicOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--public", metavar="FILE", help="Public key in PEM, for the URI of a key service."
    ),
]


@app.command(rich_help_panel=OPERATE)
def attest_key(
    file: Annotated[pathlib.Path, typer.Argument(help="File for the private key.")],
) -> None:
    """Make an Ed25519 key pair that signs evidence: FILE of mode 600, and FILE.pub to give away.

    Example: privaudit attest-key evidence.pem
    """
    from workers.evidence.envelope import make_key_pair, read_public_key

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
    key: KeyOption,
    public: PublicOption = None,
    out: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE", help="The bundle; MODEL-DAY.bundle.json by default."),
    ] = None,
    since: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="FILE",
            help="An earlier bundle: prove that the log of statements has only grown since.",
        ),
    ] = None,
    trust: Annotated[
        list[pathlib.Path] | None,
        typer.Option(
            metavar="FILE",
            help="Public key of that earlier bundle, or of tombstones of erased statements, if "
            "another key signed them (repeatable).",
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write the published statement about a model's day as signed evidence.

    The bundle holds two in-toto statements in signed envelopes, and a proof that the statement is
    in the log of all statements. privaudit verify --bundle checks it without this machine.

    Examples: privaudit attest ads-ctr 2026-03-02 --key evidence.pem;
    privaudit attest ads-ctr 2026-03-02 --key evidence.pem --since ads-ctr-2026-03-01.bundle.json
    """
    path = out or pathlib.Path(f"{model}-{day}.bundle.json")
    with working("Signing the evidence"):
        from flows.run.statements import check_follows
        from flows.settings import load_settings
        from workers.evidence.envelope import read_public_key, signer_for

        settings = load_settings(config)
        statements = statements_of(settings)
        made = _published(statements, model, day)
        check_follows(made, settings)
        signer = signer_for(key, public)
        trusted = [signer.public_key, *(read_public_key(each) for each in trust or ())]
        _write(path, _bundle(statements, made, signer, since, trusted))
    _say(path, made)


@app.command(rich_help_panel=OPERATE)
def attest_log(
    file: Annotated[pathlib.Path, typer.Argument(help="The log's file; it is renewed.")],
    *,
    key: KeyOption,
    public: PublicOption = None,
    trust: Annotated[
        list[pathlib.Path] | None,
        typer.Option(
            metavar="FILE",
            help="Public key of the file, or of tombstones of erased statements, if another key "
            "signed them (repeatable).",
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Compare the log of statements with the file of the last time, then sign its head anew.

    The file holds the hash of every statement and no statement. Keep a copy of it in storage with
    an object lock: a log that was tampered with is not signed, and what happened is named.

    Exit code: 0 the log has only grown, 1 a statement was removed, changed, reordered or inserted,
    or the end was cut off, 3 error.

    Example: privaudit attest-log statements.log.json --key evidence.pem
    """
    with working("Signing the log"):
        from flows.settings import load_settings
        from workers.evidence.envelope import read_public_key, signer_for
        from workers.evidence.log_heads import (
            find_tampering,
            read_log,
            tree_of_contents,
            write_log,
        )
        from workers.publication.erased import entry_of

        contents = statements_of(load_settings(config)).contents()
        signer = signer_for(key, public)
        trusted = [signer.public_key, *(read_public_key(each) for each in trust or ())]
        tree = tree_of_contents(contents, trusted)
        known = read_log(_bytes_of(file), trusted)[1] if file.exists() else []
        tampered = find_tampering(known, tree.leaves)
        if not tampered:
            for text in contents[len(known) :]:
                entry_of(text)  # nothing else comes into the log
            _write(file, write_log(tree, dt.datetime.now(dt.UTC), signer))
    for each in tampered:
        typer.echo(f"Statement {each.index + 1} of the log: {each.what}.")
    if tampered:
        typer.echo(f"{file} is as it was: restore the statements' table.", err=True)
        raise typer.Exit(1)
    new = tree.size - len(known)
    typer.echo(f"{file}: {tree.size} statements, {new} of them new, root {tree.root.hex()}")


@app.command(rich_help_panel=LOOK)
def attest_page(
    bundle: Annotated[pathlib.Path, typer.Argument(help="The bundle that is drawn.")],
    *,
    trust: Annotated[
        list[pathlib.Path],
        typer.Option(metavar="FILE", help="Public key of the signer in PEM (repeatable)."),
    ],
    out: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE", help="The page; BUNDLE.pdf by default."),
    ] = None,
) -> None:
    """Verify a bundle and draw it as a PDF of two pages, to be signed by hand.

    The bundle is attached to the page (PDF/A-3a). It needs the extra privaudit[pdf].

    Example: privaudit attest-page ads-ctr-2026-03-02.bundle.json --trust evidence.pem.pub
    """
    with working("Drawing the page"):
        from workers.evidence.bundle import verify_bundle
        from workers.evidence.envelope import read_public_key
        from workers.evidence.page import draw_page
        from workers.versions import METHOD_VERSION

        data = _bytes_of(bundle)
        trusted = [read_public_key(each) for each in trust]
        verified = verify_bundle(data, trusted, method_version=METHOD_VERSION)
        path = out or bundle.with_suffix(".pdf")
        _write(path, draw_page(data, verified))
    typer.echo(f"Wrote {path}.")


def statements_of(settings: "Settings") -> "Statements":
    """Return where statements are kept.

    Raises:
        TerminalError: the settings name no such place.
    """
    from privcore.exceptions import TerminalError
    from workers.publication.statement_store import Statements

    if settings.publication is None:
        raise TerminalError(
            "The settings have no [publication], so nothing is published that could be signed: set "
            "publication.statements and publication.key_file (privaudit publication-key makes the "
            "key), then audit the day again or run privaudit publish."
        )
    return Statements(settings.publication.statements)


def _published(statements: "Statements", model: str, day: dt.date) -> "Published":
    from privcore.exceptions import TerminalError

    made = statements.of(model, day)
    if made is None:
        raise TerminalError(
            f"No statement about {model} on {day} was published: run privaudit publish {model} "
            f"{day}."
        )
    return made


def _bundle(
    statements: "Statements",
    made: "Published",
    signer: "Signer",
    since: pathlib.Path | None,
    trusted: "list[Key]",
) -> bytes:
    from workers.evidence.bundle import make_bundle, read_bundle_head

    return make_bundle(
        statements.contents(),
        made.statement_id,
        signer,
        time=dt.datetime.now(dt.UTC),
        earlier=None if since is None else read_bundle_head(_bytes_of(since)),
        trusted=trusted,
    )


def _say(path: pathlib.Path, made: "Published") -> None:
    from workers.evidence.attestation import expiry
    from workers.publication.statement_conclusion import conclusion_of

    typer.echo(f"{path}: {conclusion_of(made)}")
    if expiry(made) <= dt.datetime.now(dt.UTC):
        typer.echo(
            f"The statement expired on {expiry(made):%Y-%m-%d}: it still verifies, and privaudit "
            "verify says that it is too old.",
            err=True,
        )


def _bytes_of(path: pathlib.Path) -> bytes:
    from privcore.exceptions import TerminalError
    from workers.plain_files import open_plain

    try:
        with open_plain(path) as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be read ({error.strerror}): give the path of a plain file."
        ) from None
    if len(content) > LARGEST:
        raise TerminalError(f"{path} has over {LARGEST:,} bytes: it is no bundle, and no log.")
    return content


def _write(path: pathlib.Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from privcore.exceptions import TerminalError

    try:
        replace_file(path, content)
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be written ({error.strerror}): give another path."
        ) from None

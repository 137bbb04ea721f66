"""The hand-over: `privaudit publish`, `make-key`, `attest` and `attest-key`."""

import datetime as dt
import os
import pathlib
import shutil
import subprocess
import tempfile

import typer

from flows.commands.options import LOOK, OPERATE, ConfigOption, command, open_warehouse
from flows.commands.printing import say, working
from flows.files import replace_file

app = typer.Typer()
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge")
_PRINTING = 60
"""Seconds after which a browser that prints is stopped."""


@command(app, panel=OPERATE)
def make_key(file: pathlib.Path) -> None:
    """Make a random key, of public statements' noise or of a holdout, in a file of mode 600.

    Keep it: with another key no statement, and no audit of such a holdout, can be repeated.

    Example: privaudit make-key publication.key

    Options:
        file: File for the key.
    """
    from workers import plain_files

    plain_files.make_key(file)
    typer.echo(
        f"Wrote {file}: set publication.key_file or labels.holdout_key_file to it, and keep a copy "
        "in a safe place."
    )


@command(app, panel=LOOK)
def publish(*, config: ConfigOption = None) -> None:
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
        say(f"{made.day} {made.model}: {sentence_of(made)} Statement {made.statement_id}.")
    say(*map(str, done.refused), aside=True)
    say(f"{len(done.made)} new statements. Page: {done.page}")
    raise typer.Exit(2 if done.refused else 0)


@command(app, panel=OPERATE)
def attest_key(file: pathlib.Path) -> None:
    """Make an Ed25519 key pair that signs evidence: FILE of mode 600, and FILE.pub to give away.

    Example: privaudit attest-key evidence.pem

    Options:
        file: File for the private key.
    """
    from workers.evidence.attestation import key_id, make_key_pair, read_public_key

    public = make_key_pair(file)
    typer.echo(
        f"Wrote the private key {file} and the public key {public} (id "
        f"{key_id(read_public_key(public))}). Give the public key to those who verify evidence, "
        "over a way that they trust."
    )


@command(app, panel=LOOK)
def attest(
    model: str | None = None,
    day: dt.date | None = None,
    *,
    key: str | None = None,
    exact: bool = False,
    page: str | None = None,
    out: pathlib.Path | None = None,
    config: ConfigOption = None,
) -> None:
    """Write the published statement about a model's day as signed evidence.

    The bundle is an in-toto statement in a signed envelope, which says whether it is about a
    public statement or an exact record. privaudit verify --bundle checks it without this machine.
    With --page it writes HTML, and a PDF beside it where Chromium, Chrome or Edge is installed.

    Examples: privaudit attest ads-ctr 2026-03-02 --key evidence.pem;
    privaudit attest ads-ctr 2026-03-02 --exact --key evidence.pem; privaudit attest --page 0f3c2a91

    Options:
        model: Name of the model.
        day (DAY): YYYY-MM-DD.
        key (FILE): Private key that signs: a file of mode 600.
        exact: Sign the exact record instead, for people who may read results about labels.
        page (AUDIT_ID): Instead write this exact audit as one page to print, unsigned.
        out (FILE): The bundle, or the page; MODEL-DAY.bundle.json or MODEL-DAY.html by default.
    """
    if page is not None:
        if model is not None or key is not None or exact:
            raise typer.BadParameter("--page takes no model, day, --key or --exact.")
        say(_write_page(page, out, config))
        return
    if model is None or day is None or key is None:
        raise typer.BadParameter("Give MODEL, DAY and --key, or --page AUDIT_ID.")
    path = out or pathlib.Path(f"{model}-{day}.bundle.json")
    with working("Signing the evidence"):
        from flows.publication.publishing import record_about, statement_about
        from flows.settings import load_settings
        from workers.evidence.attestation import expiry, make_bundle, read_private_key, words_of

        made = (record_about if exact else statement_about)(model, day, load_settings(config))
        _write(path, make_bundle(made, read_private_key(key)))
    say(f"{path}: {words_of(made)['verdict']}")
    if expiry(made) <= dt.datetime.now(dt.UTC):
        say(
            f"It expired on {expiry(made):%Y-%m-%d}: it still verifies, and privaudit verify says "
            "that it is too old.",
            aside=True,
        )


def _write_page(audit_id: str, out: pathlib.Path | None, config: pathlib.Path | None) -> str:
    """Write an audit's page, print it where a browser is installed, and say what was written.

    Raises:
        TerminalError: the audit is not its model's and day's verdict, or a file cannot be written.
    """
    from flows.commands.verify import not_the_days
    from flows.report.pages import audit_page, blocks_of
    from flows.report.report_rows import shared_by, shared_labels
    from flows.report.site import page_name
    from privcore.exceptions import TerminalError
    from workers.warehouse.nights_together import AuditedNight, audited_nights
    from workers.warehouse.table_row import typed_rows

    with working("Writing the page"):
        settings, warehouse = open_warehouse(config)
        whole = warehouse.whole_id(audit_id)
        if remark := not_the_days(warehouse, whole):
            raise TerminalError(f"There is no page of audit {whole[:8]}. {remark}")
        (night,) = typed_rows(AuditedNight, audited_nights(warehouse, [whole]))
        shared = shared_labels(warehouse, night.day, settings.together)
        today = dt.datetime.now(dt.UTC).date()
        blocks = blocks_of(night, settings.policy, today, shared_by(night.model, shared))
        named = f"{page_name(night.model).removesuffix('.html')}-{night.day}.html"
        html = (out or pathlib.Path(named)).with_suffix(".html")
        _write(html, audit_page(night, blocks).encode())
        printed = _printed(html)
    if printed is None:
        return f"{html}: no browser could print it here; print it to PDF from any."
    return f"{html} and {printed}"


def _printed(html: pathlib.Path) -> pathlib.Path | None:
    """Print a page of ours to a PDF beside it; None where no browser can."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "page.pdf"
        given = ["--headless", "--disable-gpu", "--no-pdf-header-footer"]
        given += [f"--user-data-dir={folder}", f"--print-to-pdf={made}"]
        # Chromium has no sandbox as root; the page runs no script and loads nothing.
        given += ["--no-sandbox"] * (os.geteuid() == 0)
        try:
            subprocess.run(  # noqa: S603  # a browser of the person's own PATH
                [browser, *given, html.absolute().as_uri()],
                check=True, capture_output=True, timeout=_PRINTING,
            )  # fmt: skip
            content = made.read_bytes()
        except (OSError, subprocess.SubprocessError):
            return None
    _write(html.with_suffix(".pdf"), content)
    return html.with_suffix(".pdf")


def _write(path: pathlib.Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from privcore.exceptions import TerminalError

    try:
        replace_file(path, content)
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be written ({error.strerror}): give another path."
        ) from None

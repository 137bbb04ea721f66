"""`privaudit verify --bundle`: evidence is verified without warehouse, lake and settings."""

import datetime as dt
import json
import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import parse_moment
from flows.commands.printing import console
from privcore.exceptions import TerminalError
from workers.plain_files import open_plain
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from workers.evidence.bundle import VerifiedBundle

BundleOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--bundle",
        metavar="FILE",
        help="Verify a bundle of privaudit attest, without warehouse, lake or settings.",
    ),
]
TrustOption = Annotated[
    list[pathlib.Path] | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        help="With --bundle: public key of the signer in PEM (repeatable).",
    ),
]
AtOption = Annotated[
    dt.datetime | None,
    typer.Option(
        "--at",
        parser=parse_moment,
        metavar="TIME",
        help="With --bundle: judge at this time (UTC) whether it expired; now by default.",
    ),
]
_CODES = {"verified": 0, "altered": 1, "wrong_key": 1, "different": 1, "expired": 2}


@dataclass(frozen=True, slots=True)
class BundleFinding:
    """Result of the verification of a bundle.

    Attributes:
        finding: verified; altered (bytes or parts do not fit), wrong_key, different (its conclusion
            does not follow from its figures), or expired.
        sentence: the same in words.
        bundle: what the bundle proves; None where it proves nothing.
    """

    finding: str
    sentence: str
    bundle: "VerifiedBundle | None" = None


def verify_evidence(
    bundle: pathlib.Path, trust: list[pathlib.Path], at: dt.datetime, *, as_json: bool
) -> int:
    """Verify a bundle, print what it proves, and return the exit code.

    Raises:
        TerminalError: the bundle or a key cannot be read.
    """
    found = check_evidence(bundle, trust, at)
    if as_json:
        typer.echo(json.dumps(_as_object(found), indent=2))
    else:
        out = console()
        lines = [] if found.bundle is None else _lines(found.bundle)
        for line in (f"{found.finding}: {found.sentence}", *(f"  {line}" for line in lines)):
            out.print(plain_text(line), highlight=False, markup=False)
    return _CODES[found.finding]


def check_evidence(
    bundle: pathlib.Path, trust: list[pathlib.Path], at: dt.datetime
) -> BundleFinding:
    """Return what is found of a bundle at a time.

    Raises:
        TerminalError: the bundle or a key cannot be read.
    """
    from workers.evidence.bundle import LARGEST, verify_bundle
    from workers.evidence.envelope import UntrustedSignatureError, read_public_key
    from workers.versions import METHOD_VERSION

    trusted = [read_public_key(path) for path in trust]
    try:
        with open_plain(bundle) as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        raise TerminalError(
            f"The bundle {bundle} cannot be read ({error.strerror}): check the path."
        ) from None
    try:
        verified = verify_bundle(data, trusted, method_version=METHOD_VERSION)
    except UntrustedSignatureError as error:
        return BundleFinding(error.what, error.sentence)
    if verified.recomputed is False:
        return BundleFinding(
            "different",
            "The bundle is signed and unchanged, but its conclusion does not follow from its "
            "figures: ask the signer why.",
            verified,
        )
    if verified.expired(at):
        return BundleFinding(
            "expired",
            f"The bundle is signed and unchanged, but it expired on "
            f"{verified.expires_at:%Y-%m-%d %H:%M} UTC, or it begins later: ask the signer "
            "for another one.",
            verified,
        )
    return BundleFinding(
        "verified", "The bundle is signed by a trusted key and unchanged.", verified
    )


def _lines(bundle: "VerifiedBundle") -> list[str]:
    """Return what a bundle proves, line by line."""
    from workers.publication.statement_row import Statement

    made, words = bundle.made, bundle.words
    again = {True: "follow from", False: "do not follow from", None: "were not computed again from"}
    expires = f"expires {bundle.expires_at:%Y-%m-%d %H:%M} UTC"
    if isinstance(made, Statement):
        tested = (
            f"p-values: {made.pvalue:.4g} of the claim at significance {made.significance:g}, "
            f"{made.premises_pvalue:.4g} of what the test assumes; they "
            f"{again[bundle.recomputed]} the signed figures"
        )
        lines = [
            f"public statement: {made.model} on {made.day}: {bundle.result}. {words['conclusion']}",
            tested,
            f"published {made.published_at:%Y-%m-%d %H:%M} UTC, {expires}",
        ]
    else:
        audit = made.audit
        lines = [
            f"exact record: {audit.model} on {audit.day}: {audit.verdict}. {words['conclusion']}",
            f"audit {audit.audit_id}, record {audit.record_digest}",
            f"recorded {audit.recorded_at:%Y-%m-%d %H:%M} UTC, {expires}",
        ]
    lines += [f"assumed: {each}" for each in words["assumptions"]]
    return lines + [f"not tested: {each}" for each in words["not_tested"]]


def _as_object(found: BundleFinding) -> dict[str, Any]:
    shown: dict[str, Any] = {"finding": found.finding, "sentence": found.sentence}
    if (bundle := found.bundle) is None:
        return shown
    kind = "record" if hasattr(bundle.made, "audit") else "statement"
    return shown | {
        "result": bundle.result,
        "recomputed": bundle.recomputed,
        "expires_at": bundle.expires_at.isoformat(),
        kind: bundle.made.model_dump(mode="json"),
        "words": bundle.words,
    }

"""The page of a bundle for a person who signs on paper: PDF/A-3a with PDF/UA-1, by typst.

The bundle itself is attached, and the page is drawn from nothing else, so the same bundle gives the
same bytes with the same version of typst. The page proves nothing; its attachment does.
"""

import importlib.resources
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from securesystemslib.signer import Key

from privcore.exceptions import TerminalError
from workers.evidence.bundle import LARGEST, VerifiedBundle, verify_bundle
from workers.evidence.envelope import UntrustedSignatureError
from workers.plain_text import plain_text

MAGIC = b"%PDF-"
"""The first bytes of a PDF."""
_BEGIN, _END = re.compile(rb"stream\r?\n"), re.compile(rb"\r?\nendstream")
_BEGINNING = b'{"attestations":'


def draw_page(data: bytes, bundle: VerifiedBundle) -> bytes:
    """Return the PDF of a bundle, with the bundle attached.

    Raises:
        TerminalError: typst is not installed, or it cannot draw the page.
    """
    try:
        import typst  # noqa: PLC0415  # an extra, of 80 MB
    except ImportError:
        raise TerminalError(
            "The page needs typst, which is not installed: install privaudit[pdf]."
        ) from None
    template = importlib.resources.files("workers.evidence") / "templates" / "statement.typ"
    try:
        drawn = typst.compile(
            template.read_bytes(),
            format="pdf",
            sys_inputs={"shown": json.dumps(_shown(bundle)), "bundle": data.decode()},
            pdf_standards=["a-3a", "ua-1"],
            timestamp=int(bundle.head.time.timestamp()),
            ignore_system_fonts=True,
        )
    except (typst.TypstError, RuntimeError) as error:
        raise TerminalError(
            f"typst cannot draw the page ({type(error).__name__}): install the version that "
            "privaudit[pdf] asks for."
        ) from error
    return bytes(drawn)


def verify_page(data: bytes, trusted: Sequence[Key], *, method_version: str) -> VerifiedBundle:
    """Verify a PDF: its attached bundle, and that the page is what `draw_page` makes of it.

    Raises:
        UntrustedSignatureError: no bundle is attached, or several are; it does not verify; or the
            page is another one than this version of typst draws.
        TerminalError: typst is not installed.
    """
    found = [content for raw in _streams(data) if (content := _attached(raw))]
    if len(found) != 1:
        raise UntrustedSignatureError(
            "altered",
            f"The PDF has {len(found)} bundles attached, not one: ask the sender for another.",
        )
    verified = verify_bundle(found[0], trusted, method_version=method_version)
    if draw_page(found[0], verified) != data:
        raise UntrustedSignatureError(
            "altered",
            "The bundle that is attached verifies, but the page is not the one that this version "
            "draws of it: believe the attachment alone, and draw the page again with privaudit "
            "attest-page.",
        )
    return verified


def _answer(columns: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows that tell what the test said."""
    significance = ("Significance", f"{columns['significance']:g}")
    if "test_id" not in columns:
        return [
            ("p-value of the claim", f"{columns['pvalue']:.4g}"),
            significance,
            ("p-value of the assumptions", f"{columns['premises_pvalue']:.4g}"),
        ]
    rows = [
        ("Night of the test", f"{columns['test_night']} of at most {columns['test_nights']}"),
        ("Answer", "alarm" if columns["alarm"] else "no alarm"),
        significance,
    ]
    if columns["alarm"]:
        rows.append(("p-value of the assumptions", f"{columns['premises_pvalue']:.4g}"))
    return rows


def _streams(data: bytes) -> Iterator[bytes]:
    """Yield the streams of a PDF, in one pass: many beginnings may have no end."""
    start = 0
    while (begin := _BEGIN.search(data, start)) and (end := _END.search(data, begin.end())):
        yield data[begin.end() : end.start()]
        start = end.end()


def _plain(said: str | list[str]) -> str | list[str]:
    return plain_text(said) if isinstance(said, str) else [plain_text(each) for each in said]


def _attached(raw: bytes) -> bytes | None:
    """Return the bundle that a stream holds, if it holds one."""
    try:
        content = zlib.decompressobj().decompress(raw, LARGEST)
    except zlib.error:
        content = raw
    return content if content.startswith(_BEGINNING) else None


def _shown(bundle: VerifiedBundle) -> dict[str, Any]:
    """Return what the template shows, all of it plain text."""
    columns, head = bundle.columns, bundle.head
    declared, ceiling = columns["epsilon_declared"], columns["epsilon_ceiling"]
    rows = [
        ("Model and day", f"{columns['model']}, {columns['day']}"),
        ("Claimed by", "the house's policy" if columns["by_policy"] else "the model's owner"),
        (
            "Claim",
            f"{columns['family']}, epsilon {declared:g}, delta {columns['delta_declared']:g}",
        ),
        ("Relation and unit", f"{columns['neighbors']}, {columns['unit']}"),
        *_answer(columns),
        ("Records", f"{columns['records']:,} in training, {columns['control_records']:,} held out"),
        ("Privacy loss of this statement", f"epsilon {columns['epsilon_public']:g}"),
        ("Published, expires", f"{columns['published_at'][:10]}, {bundle.expires_at:%Y-%m-%d}"),
    ]
    signed = [
        ("Statement", f"{columns['statement_id']}, revision {columns['revision']}"),
        ("Method, code", f"{columns['method_version']}, {columns['code_version']}"),
        ("Model's SHA-256", columns["target_sha256"] or "not known"),
        ("Proxy's SHA-256", columns["proxy_sha256"] or "not known"),
        ("Commitment to labels", columns["labels_commitment"]),
        ("Place in the log", f"{bundle.index + 1} of {head.size}"),
        ("Root of the log", head.root),
        ("Time of the log's head", f"{head.time:%Y-%m-%d %H:%M} UTC"),
    ]
    return {
        "result": bundle.result,
        "statement": columns | {"model": plain_text(columns["model"])},
        "words": {name: _plain(said) for name, said in bundle.words.items()},
        "rows": [[name, plain_text(value)] for name, value in rows],
        "signed": [[name, plain_text(value)] for name, value in signed],
        "plot": (
            f"The declaration is epsilon {declared:g}. The grey bar ends at {ceiling:g}: these "
            "numbers of records could refute a declaration up to there."
        ),
    }

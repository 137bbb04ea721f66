"""The page: its form, its attachment, and that equal bundles give equal bytes."""

import pathlib
import re
import sys
import zlib

import pytest

from privcore.exceptions import TerminalError
from workers.evidence.bundle import VerifiedBundle, verify_bundle
from workers.evidence.envelope import UntrustedSignatureError, read_public_key
from workers.evidence.page import draw_page, verify_page

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "bundles"


def bundle(name: str) -> tuple[bytes, VerifiedBundle]:
    data = (FIXTURES / f"{name}.json").read_bytes()
    trusted = [read_public_key(FIXTURES / "version-1.pub")]
    return data, verify_bundle(data, trusted, method_version="0")


def attached(page: bytes) -> list[bytes]:
    """Return every stream of a PDF, decompressed."""
    found = []
    for raw in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", page, re.DOTALL):
        try:
            found.append(zlib.decompress(raw))
        except zlib.error:
            found.append(raw)
    return found


@pytest.mark.parametrize("name", ["version-1", "version-1-refuted"])
def test_a_page_has_two_sides_and_the_bundle_attached(name: str) -> None:
    data, verified = bundle(name)
    page = draw_page(data, verified)
    assert page.startswith(b"%PDF-1.7")
    assert data in attached(page)
    assert re.search(rb"/Type\s*/Pages\s*/Count\s*2|/Count 2", page)
    assert b"<pdfaid:part>3</pdfaid:part>" in page
    assert b"<pdfuaid:part>1</pdfuaid:part>" in page
    assert b"/AFRelationship" in page


def test_a_page_verifies_as_its_bundle_does() -> None:
    data, verified = bundle("version-1")
    trusted = [read_public_key(FIXTURES / "version-1.pub")]
    assert verify_page(draw_page(data, verified), trusted, method_version="0") == verified


@pytest.mark.slow
def test_a_changed_byte_of_page_or_attachment_is_found() -> None:
    """Bytes all over a page, and bytes all over its attachment, with a page drawn of it."""
    data, verified = bundle("version-1-refuted")
    trusted = [read_public_key(FIXTURES / "version-1.pub")]
    page = draw_page(data, verified)
    for place in range(0, len(page), len(page) // 20):
        changed = page[:place] + bytes([page[place] ^ 1]) + page[place + 1 :]
        with pytest.raises(UntrustedSignatureError):
            verify_page(changed, trusted, method_version="0")
    for place in range(40, len(data), len(data) // 10):
        forged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(UntrustedSignatureError):
            verify_page(draw_page(forged, verified), trusted, method_version="0")


def test_a_page_that_shows_another_bundle_is_found() -> None:
    """The face says that a refuted declaration passed; the attachment is the right one."""
    kept, refuted = bundle("version-1"), bundle("version-1-refuted")
    trusted = [read_public_key(FIXTURES / "version-1.pub")]
    liar = draw_page(refuted[0], kept[1])
    with pytest.raises(UntrustedSignatureError, match="believe the attachment alone"):
        verify_page(liar, trusted, method_version="0")
    both = draw_page(*kept) + b"\nstream\n" + refuted[0] + b"\nendstream\n"
    with pytest.raises(UntrustedSignatureError, match="2 bundles attached"):
        verify_page(both, trusted, method_version="0")
    with pytest.raises(UntrustedSignatureError, match="0 bundles attached"):
        verify_page(b"%PDF-1.7", trusted, method_version="0")


def test_equal_bundles_give_equal_bytes() -> None:
    assert draw_page(*bundle("version-1")) == draw_page(*bundle("version-1"))
    assert draw_page(*bundle("version-1")) != draw_page(*bundle("version-1-refuted"))


def test_the_extra_is_named_where_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(TerminalError, match=r"install privaudit\[pdf\]"):
        draw_page(*bundle("version-1"))

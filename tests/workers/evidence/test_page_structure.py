"""Requirements of PDF/A-3a and PDF/UA-1 on a page's structure, read by qpdf.

No validator is among the tests' packages. This checks what a reader of objects can check, clause by
clause: the names are those of ISO 19005-3 (A) and ISO 14289-1 (UA). Colours inside of content, the
fonts' own tables and the order of reading are not checked.
"""

import io
import json
from collections.abc import Iterator
from typing import Any

import pikepdf
import pytest

from tests.workers.evidence.test_page import bundle
from workers.evidence.page import draw_page

NAMES = ("version-1", "version-1-refuted")
PAINTING = {"Tj", "TJ", "'", '"', "f", "f*", "F", "S", "s", "B", "B*", "b", "b*", "sh", "Do", "EI"}
FORBIDDEN = ("/JS", "/JavaScript", "/AA", "/OpenAction", "/XFA", "/PS", "/Crypt")


@pytest.fixture(params=NAMES)
def drawn(request: pytest.FixtureRequest) -> tuple[bytes, pikepdf.Pdf]:
    """Return a bundle, and its page as qpdf reads it."""
    data, verified = bundle(request.param)
    return data, pikepdf.open(io.BytesIO(draw_page(data, verified)))


def elements(of: Any) -> Iterator[Any]:
    """Yield all elements of a structure tree below one."""
    below = of.get("/K", [])
    for one in below if isinstance(below, pikepdf.Array) else [below]:
        if isinstance(one, pikepdf.Dictionary) and "/S" in one:
            yield one
            yield from elements(one)


def test_its_syntax_its_claims_and_its_colours(drawn: tuple[bytes, pikepdf.Pdf]) -> None:
    """A 6.1 (syntax, no encryption, an ID), 6.2.3 (output intent), 6.6 (XMP); UA 5, 7.1."""
    _, pdf = drawn
    assert not pdf.check_pdf_syntax()
    assert not pdf.is_encrypted
    assert len(pdf.trailer.ID) == 2
    (intent,) = pdf.Root.OutputIntents
    profile = intent.DestOutputProfile.read_bytes()
    assert (intent.S, profile[36:40], profile[16:20]) == ("/GTS_PDFA1", b"acsp", b"RGB ")
    with pdf.open_metadata() as said:
        claims = {name.rpartition("}")[2]: said[name] for name in said}
        parts = [said[f"{{http://www.aiim.org/{kind}/ns/id/}}part"] for kind in ("pdfa", "pdfua")]
    assert (said.pdfa_status, parts) == ("3A", ["3", "1"])
    assert claims["title"].startswith("Label privacy of model-")
    assert "/Filter" not in pdf.Root.Metadata
    assert pdf.Root.ViewerPreferences.DisplayDocTitle


def test_nothing_of_it_runs_and_all_fonts_are_in_it(drawn: tuple[bytes, pikepdf.Pdf]) -> None:
    """A 6.2.11 (fonts are embedded, and their letters are known), 6.5 (actions)."""
    _, pdf = drawn
    found = [one for one in pdf.objects if isinstance(one, pikepdf.Dictionary | pikepdf.Stream)]
    assert not [name for one in found for name in FORBIDDEN if name in one]
    fonts = [one for one in found if one.get("/Type") == "/Font"]
    shown = [one for one in fonts if "/DescendantFonts" in one]
    assert len(shown) >= 3
    assert {len(one.DescendantFonts) for one in shown} == {1}
    assert len(fonts) == 2 * len(shown)
    for one in shown:
        assert "/ToUnicode" in one
        described = one.DescendantFonts[0].FontDescriptor
        assert {"/FontFile2", "/FontFile3"} & set(described.keys())


def test_the_bundle_is_attached_as_its_source(drawn: tuple[bytes, pikepdf.Pdf]) -> None:
    """A 6.8 (name, kind, relationship and a place in the catalogue)."""
    data, pdf = drawn
    (name,) = pdf.attachments
    file = pdf.Root.AF[0]
    assert pdf.attachments[name].get_file().read_bytes() == data
    assert len(pdf.Root.AF) == 1
    assert file.AFRelationship == "/Source"
    assert str(file.F) == str(file.UF) == name == "statement.bundle.json"
    assert file.EF.F.Subtype == "/application/json"
    assert json.loads(file.EF.F.read_bytes())


def test_all_that_is_drawn_is_tagged(drawn: tuple[bytes, pikepdf.Pdf]) -> None:
    """UA 7.1 (all content is tagged or an artifact), 7.2 (language), 7.3 (figures), 7.4, 7.5."""
    _, pdf = drawn
    assert pdf.Root.MarkInfo.Marked
    assert str(pdf.Root.Lang) == "en"
    tree = list(elements(pdf.Root.StructTreeRoot))
    kinds = [str(one.S) for one in tree]
    assert kinds[0] == "/Document"
    assert kinds.count("/H1") >= 4
    figures = [one for one in tree if one.S == "/Figure"]
    assert [len(str(one.Alt)) > 40 for one in figures] == [True]
    for row in (one for one in tree if one.S in ("/TR", "/TH", "/TD")):
        assert str(row.P.S) in ("/THead", "/TBody") if row.S == "/TR" else row.P.S == "/TR"
    pairs = list(pdf.Root.StructTreeRoot.ParentTree.Nums)
    owners = {int(one): other for one, other in zip(pairs[::2], pairs[1::2], strict=True)}
    for number, page in enumerate(pdf.pages):
        assert page.Tabs == "/S"
        marks: list[int | None] = []  # None of an artifact
        seen = set()
        for step in pikepdf.parse_content_stream(page):
            operator = str(step.operator)
            if operator in {"BMC", "BDC"}:
                kind = step.operands[0]
                of = step.operands[1] if operator == "BDC" else {}
                assert kind == "/Artifact" or "/MCID" in of or marks
                marks.append(None if kind == "/Artifact" else int(of.get("/MCID", -1)))
            elif operator == "EMC":
                marks.pop()
            elif operator in PAINTING:
                assert marks, f"{operator} on page {number + 1} is neither tagged nor an artifact"
                seen |= {mark for mark in marks if mark is not None}
        assert not marks
        named = [place for place, one in enumerate(owners[int(page.StructParents)]) if one]
        assert seen
        assert seen <= set(named)

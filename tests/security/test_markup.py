"""A manifest's words are shown as text everywhere and never run as markup."""

import datetime as dt
import html.parser
import json
import pathlib
import re
from typing import Any

import markdown_it
import markupsafe
import polars as pl
import pytest
from rich.console import Console

from flows.commands.terminal_tables import audits_table, frame_table
from flows.notify.artifacts import summary
from flows.report.history import AuditedNight
from flows.report.site import write_pages
from tests.support.lake import DAY, declared
from tests.support.report import tables
from workers.exceptions import NotEvaluableError
from workers.lake.manifest import parse_manifest
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.sql import export
from workers.warehouse.store import Warehouse

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "[click](javascript:alert(1)) | `x` | **b**",
    "=cmd|' /C calc'!A0",
    "[red]not red[/red] [link=file:///etc/passwd]here[/link]",
    "</title></style></svg><svg onload=alert(1)>",
]
ELEMENTS_THAT_RUN = {"script", "iframe", "object", "embed", "base", "form", "img"}


class Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.handlers: list[str] = []
        self.within = ""
        self.text: list[str] = []
        self.outside_code: list[str] = []

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.within != "code":
            self.outside_code.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.within = self.within.removesuffix(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.within = tag
        for name, value in attrs:
            leads = name in {"href", "src", "action", "xlink:href"}
            if name.startswith("on") or (leads and "javascript:" in (value or "")):
                self.handlers.append(f"{tag} {name}")


def row(text: str) -> AuditRow:
    """Return a record that says `text` wherever a record may hold foreign text."""
    return AuditRow(
        audit_id="0",
        method_version="1",
        code_version="1",
        seed=0,
        target_sha256=None,
        proxy_sha256=None,
        labels_digest=None,
        model=text,
        day=DAY,
        recorded_at=dt.datetime(2026, 3, 2, tzinfo=dt.UTC),
        status="not_evaluable",
        verdict="not_evaluable",
        reason_code="manifest_invalid",
        reason=text,
        secret="label",  # noqa: S106  # what is tested, no password
        dataset=text,
        mechanism=text,
        declared_by=text,
        plan="{}",
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_the_report_shows_foreign_text_and_runs_none_of_it(
    text: str, tmp_path: pathlib.Path
) -> None:
    write_pages(tables([AuditedNight.model_validate(row(text).model_dump())]), tmp_path)
    (model_page,) = (tmp_path / "models").iterdir()
    for path in (tmp_path / "index.html", model_page):
        page = path.read_text(encoding="utf-8")
        elements = Elements()
        elements.feed(page)
        assert not ELEMENTS_THAT_RUN & set(elements.found)
        assert elements.handlers == []
        assert "default-src 'none'" in page
        assert str(markupsafe.escape(text)) in page


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_shows_foreign_text_as_it_is(text: str) -> None:
    console = Console(width=300, record=True, force_terminal=True)
    frame = pl.DataFrame([row(text).model_dump()], infer_schema_length=None)
    console.print(audits_table(frame, width=300))
    console.print(frame_table(frame.select("model", "declared_by")))
    shown = console.export_text(styles=True)
    assert shown.count(text) == 3
    assert "\x1b]8;" not in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_prefects_markdown_shows_foreign_text_as_it_is(text: str) -> None:
    markdown = summary(text, [row(text)], report="https://reports.example.com/")
    page = markdown_it.MarkdownIt("commonmark", {"html": True, "linkify": False})
    elements = Elements()
    elements.feed(page.enable("table").render(markdown))
    seen = set(elements.found) - ({"code"} if "://" in text else set())
    assert seen == {"h2", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert elements.found.count("td") == 8
    assert text in "".join(elements.text)


ADDRESSES = [
    "https://evil.example/a_b",
    "see HTTP://evil.example, ftp://x",
    "www.evil.example",
    "(WWW.evil.example)",
    "mailto:a.b@evil.example",
    "\\@@evil\\.example|`@`|www.@://`x",
]
LINKED = re.compile(r"://|www\.|@", re.IGNORECASE)


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_in_markdown_is_no_link_and_can_be_read(text: str) -> None:
    """Pages make links of addresses that nothing marks, also of escaped ones, but of no code."""
    elements = Elements()
    page = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
    elements.feed(page.render(summary(text, [row(text)], report="https://reports.example.com/")))
    assert "".join(elements.text).count(text) == 3
    assert set(elements.found) == {"h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code"}
    linked = [one for one in elements.outside_code if LINKED.search(one)]
    assert linked == ["Report: https://reports.example.com/"]


@pytest.mark.slow
def test_an_exported_csv_holds_no_formula(tmp_path: pathlib.Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    formulas = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)"]
    for number, text in enumerate(formulas):
        audit = row(text).model_copy(update={"audit_id": str(number)})
        warehouse.commit(AuditRecord(audit=audit))
    export(warehouse, tmp_path / "csv", kind="csv")
    audits = pl.read_csv(tmp_path / "csv" / "audits.csv", infer_schema=False)
    assert sorted(audits["declared_by"]) == sorted(f"'{text}" for text in formulas)
    for cells in audits.select("model", "reason", "declared_by").iter_rows():
        assert all(cell.startswith("'") for cell in cells)


def test_a_terminal_shows_control_characters_instead_of_obeying_them() -> None:
    """A slice's value comes from the labels, which may hold anything."""
    console = Console(width=200, record=True, force_terminal=True)
    console.print(frame_table(pl.DataFrame({"value": CONTROLS})))
    shown = console.export_text()
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "\\u001b[2J" in shown


CONTROLS = [
    "\x1b]0;title\x07",
    "\x1b[2J",
    "a\nb",
    "a\rb",
    "a\x00b",
    "\x9b31m",
    "\u202eevil",
    "\u2066x",
]


@pytest.mark.parametrize("text", CONTROLS, ids=ascii)
@pytest.mark.parametrize(
    "field", ["declared_by", "unit", "mechanism", "column", "class", "feature"]
)
def test_a_manifest_holds_no_control_characters(text: str, field: str) -> None:
    with pytest.raises(NotEvaluableError) as refused:
        parse_manifest(json.dumps(manifest(field, text)).encode(), where="here")
    assert refused.value.reason == "manifest_invalid"
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("text", ["Zoë", "日本", "late | early", "<script>", "=1+1", "🙂"])
@pytest.mark.parametrize(
    "field", ["declared_by", "unit", "mechanism", "column", "class", "feature"]
)
def test_a_manifest_holds_any_other_text(text: str, field: str) -> None:
    assert parse_manifest(json.dumps(manifest(field, text)).encode(), where="here")


def manifest(field: str, text: str) -> dict[str, Any]:
    """Return a manifest with `text` in one of its fields."""
    privacy = declared(mechanism={"name": text if field == "mechanism" else "x", "parameters": {}})
    privacy |= {field: text} if field in privacy and field != "mechanism" else {}
    return {
        "schema_version": 1,
        "model": "m",
        "day": str(DAY),
        "format": "catboost",
        "file": "model.cbm",
        "sha256": "0" * 64,
        "dataset": "d",
        "label": {
            "column": text if field == "column" else "y",
            "classes": ["0", text if field == "class" else "1"],
        },
        "features": [{"name": text if field == "feature" else "f", "kind": "numeric"}],
        "trained_on": {"first": str(DAY), "last": str(DAY), "split": "train"},
        "privacy": privacy,
    }

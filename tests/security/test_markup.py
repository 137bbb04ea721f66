"""What a manifest says is shown as text, wherever it is shown, and never obeyed."""

import datetime as dt
import html.parser
import pathlib

import markupsafe
import polars as pl
import pytest
from rich.console import Console

from flows.report.history import Night
from flows.report.site import write_pages
from flows.tables import audits_table, frame_table
from tests.support.lake import DAY, declared
from tests.support.report import tables
from workers.exceptions import NotEvaluableError
from workers.manifest import Manifest, parse_manifest
from workers.records import AuditRow

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

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
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
        dataset=text,
        mechanism=text,
        declared_by=text,
        plan="{}",
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_the_report_shows_foreign_text_and_runs_none_of_it(
    text: str, tmp_path: pathlib.Path
) -> None:
    write_pages(tables([Night.model_validate(row(text).model_dump())]), tmp_path)
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
        parse_manifest(manifest(field, text).model_dump_json().encode(), where="here")
    assert refused.value.reason == "manifest_invalid"
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("text", ["Zoë", "日本", "late | early", "<script>", "=1+1", "🙂"])
@pytest.mark.parametrize(
    "field", ["declared_by", "unit", "mechanism", "column", "class", "feature"]
)
def test_a_manifest_holds_any_other_text(text: str, field: str) -> None:
    assert parse_manifest(manifest(field, text).model_dump_json().encode(), where="here")


def manifest(field: str, text: str) -> Manifest:
    """Return a manifest, unchecked, with `text` in one of its fields."""
    privacy = declared(mechanism={"name": text if field == "mechanism" else "x", "parameters": {}})
    privacy |= {field: text} if field in privacy and field != "mechanism" else {}
    return Manifest.model_construct(
        schema_version=1,
        model="m",
        day=DAY,
        format="catboost",
        file="model.cbm",
        sha256="0" * 64,
        dataset="d",
        label={
            "column": text if field == "column" else "y",
            "classes": ["0", text if field == "class" else "1"],
        },
        features=[{"name": text if field == "feature" else "f", "kind": "numeric"}],
        trained_on={"first": str(DAY), "last": str(DAY), "split": "train"},
        privacy=privacy,
    )

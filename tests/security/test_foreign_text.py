"""Words of manifests, tables and logs are shown as text everywhere and never run as markup."""

import datetime as dt
import html.parser
import io
import json
import logging
import re
import sys
from typing import Any

import markupsafe
import polars as pl
import pytest
from rich.console import Console

from flows import cli
from flows.commands.printing import json_text
from flows.commands.terminal_tables import audits_table, frame_table
from flows.notify.events import Event, Kind, without_markup
from flows.notify.metrics import metrics_text
from flows.report import templating
from flows.report.site import page_names, write_pages
from tests.support.audits import audited
from tests.support.lake import DAY, declared, label_path, manifest_for
from tests.support.report import tables
from tests.support.warehouse import failed, latest
from workers.exceptions import NotEvaluableError
from workers.lake.manifest import parse_manifest
from workers.plain_text import plain_text
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import AuditRow

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
    more = dict.fromkeys(("dataset", "mechanism", "declared_by"), text)
    return failed(text, DAY, reason=text).audit.model_copy(update=more)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_report_shows_foreign_text_and_runs_none_of_it(text, tmp_path):
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
def test_a_terminal_shows_foreign_text_as_it_is(text):
    console = Console(width=300, record=True, force_terminal=True)
    frame = pl.DataFrame([row(text).model_dump()], infer_schema_length=None)
    console.print(audits_table(frame, width=300))
    console.print(frame_table(frame.select("model", "declared_by")))
    shown = console.export_text(styles=True)
    assert shown.count(text) == 3
    assert "\x1b]8;" not in shown


def test_a_terminal_shows_control_characters_and_markup_instead_of_obeying_them():
    """A slice's value comes from the labels, which may hold anything."""
    console = Console(width=200, record=True, force_terminal=True)
    console.print(frame_table(pl.DataFrame({"value": ["\x1b[2J"], "[red]x[/bold]\u202e\n": [1]})))
    shown = console.export_text()
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "\\u001b[2J" in shown
    assert r"[red]x[/bold]\u202e\u000a" in shown


@pytest.mark.parametrize(
    "field", ["declared_by", "unit", "mechanism", "column", "class", "feature"]
)
def test_a_manifest_holds_text_without_control_characters(field):
    for text in ("\x1b]0;title\x07", "a\nb", "a\x00b", "\x9b31m", "\u202eevil", "\u2066x"):
        with pytest.raises(NotEvaluableError) as refused:
            parse_manifest(json.dumps(manifest(field, text)).encode(), where="here")
        assert refused.value.reason == "manifest_invalid"
        assert str(refused.value).isprintable()
    for text in ("Zoë", "日本", "late | early", "<script>", "=1+1", "🙂"):
        assert parse_manifest(json.dumps(manifest(field, text)).encode(), where="here")


def manifest(field: str, text: str) -> dict[str, Any]:
    """Return a manifest with `text` in one of its fields."""
    privacy = declared(mechanism={"name": text if field == "mechanism" else "x", "parameters": {}})
    privacy |= {field: text} if field in privacy and field != "mechanism" else {}
    label = {"column": "y", "classes": ["0", text if field == "class" else "1"]}
    label |= {field: text} if field == "column" else {}
    features = [{"name": text if field == "feature" else "f", "kind": "numeric"}]
    changes = {"label": label, "features": features, "privacy": privacy}
    return manifest_for().model_dump(mode="json") | changes


NAMES = (
    "<b>ads</b>", "[red]ads[/]", 'a"ds', "a'ds", "../ads", "ads/..", "a\nds", "a\x1b[2Jds", "a ds",
    "=ads()", "ads\\", "\u202eads", "a\u0000ds", "", ".", "..", "a" * 300,
)  # fmt: skip


def test_quotes_and_line_breaks_in_labels_end_no_metric():
    """Each sample of Prometheus' file is one line, whose one label is the name, as in chats."""
    lines = metrics_text([], dt.UTC, listed=NAMES).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert len(samples) == len(NAMES)
    pairs = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
    for name, line in zip(NAMES, samples, strict=True):
        found = re.fullmatch(r'privaudit_model_listed\{model="((?:[^"\\]|\\.)*)"\} 1\.0', line)
        assert found, line
        assert re.sub(r"\\.", lambda one: pairs[one[0]], found[1]) == without_markup(name)


@pytest.mark.parametrize("name", NAMES)
def test_markup_in_a_models_name_is_refused_and_shown_as_text(lake, name):
    row = audited(lake, model=name)
    assert row.status == "not_evaluable", row.reason
    assert not {"\x1b", "\u202e", "\n", "\x00"} & set(row.model + str(row.reason))


def test_every_model_has_a_page_of_its_own_in_the_reports_folder():
    (hashed,) = page_names(["Zoë"]).values()
    alike = ["Alpha", "alpha", "ALPHA", "Zoë", "Zoe\u0308", hashed.removesuffix(".html")]
    pages = page_names([*NAMES, *alike])
    assert len({page.casefold() for page in pages.values()}) == len(NAMES) + len(alike)
    for page in pages.values():
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,120}", page), page
        assert page.strip(".")


@pytest.mark.parametrize(
    "words", ["[Sign in|https://evil.example]", '"Sign in":https://evil.example', "<!channel>"]
)
def test_no_words_are_a_link_in_a_tracker_or_by_alertmanager(words):
    """Jira's and Redmine's were; and Alertmanager sends a model's name to Slack as it is."""
    alert = Event(Kind.MISSING, words, DAY, f"{words}: no audit", words, ("bea",))
    for told in (json.dumps(alert.payload()), metrics_text([latest(words)], dt.UTC, [words])):
        assert not set("|<").intersection(told)
        assert "https://e" not in told


@pytest.mark.parametrize(
    "sign", ["##vso[task.setvariable variable=PATH]", "##[error]", "::error::"]
)
def test_no_name_of_a_column_is_a_command_of_a_build_server(sign):
    """A column's name in a reason of `gate` set variables of a build in Azure's pipelines."""
    told = plain_text(f"{sign}x")
    assert told == f"\\u{ord(sign[0]):04x}{sign[1:]}x"
    if sign.startswith("#"):
        assert sign not in json_text({"column": sign})
        assert json.loads(json_text({"column": sign})) == {"column": sign}


_FIGURES = {
    "epsilon_declared": 0.5, "delta_declared": 0.0, "verdict": "violated", "epsilon_paper": None,
    "sees_from": None, "reason_code": "this_night",
}  # fmt: skip


def test_figures_after_a_hebrew_or_arabic_name_keep_their_places():
    """A terminal that orders by Unicode's rules showed the declaration where the bound stands."""
    for name in ("שלום", "نموذج", "שלום עולם"):
        row = {"day": DAY, "model": name, "secret": "label", "epsilon_lower": 1.61, "declared": 0.5}
        for table in (
            audits_table(pl.DataFrame([row | _FIGURES]), width=200),
            frame_table(pl.DataFrame([row])),
        ):
            out = Console(width=200, file=io.StringIO())
            out.print(table)
            assert f"{name}\u200e" in out.file.getvalue()
    shown = templating.environment().from_string("<p>{{ name }} 1.61 0.5</p>")
    assert shown.render(name="<שלום>") == "<p>&lt;שלום\u200e&gt; 1.61 0.5</p>"


def test_no_chat_makes_a_link_of_words_and_honest_ones_stay_whole():
    honest = (
        "s3://bucket/rows", "docs/how-to/violated.md", "model.cbm: 0.5 at 12:30", "/srv/lake.com/x",
        "data: 5 rows", "0.25 of 1,000", "ads.ctr", "churn.de",
    )  # fmt: skip
    links = {
        "see www.evil.example/fix": "see www. evil.example/fix",
        r"\\evil\share": r"\\ evil\share",
        "file:///etc/passwd": "file:// /etc/passwd",
        "ms-word:ofe": "ms-word: ofe",
        "tel:+1234": "tel: +1234",
    }
    for words, shown in (dict(zip(honest, honest, strict=True)) | links).items():
        told = Event(Kind.VIOLATED, "churn.de", DAY, "violated", words).payload()
        assert (told["reason"], told["model"]) == (shown, "churn.de")


def test_a_traceback_holds_no_command(capsys):
    """With --debug the words of an error stood there as they were, with line breaks and codes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["privaudit", "--debug"])
        cli._print_error(ValueError("column \x1b[31mlate\n::error::##vso[task.x]"))
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "##vso" not in said
    assert not [line for line in said.splitlines() if line.strip().startswith("::")]


def test_a_files_name_forges_no_line_and_no_field_of_the_log(lake, caplog):
    path = label_path(lake, "bad-labels")
    path.rename(path.with_name("x verdict=violated\nevent=audit_done model=good.parquet"))
    with caplog.at_level(logging.INFO, logger="workers"):
        assert audited(lake, model="bad").status == "evaluated"
    said = [record.getMessage() for record in caplog.records]
    (unit,) = (line for line in said if line.startswith("event=work_unit_done"))
    assert "\n" not in unit
    assert 'shards="x verdict=violated\\nevent=audit_done model=good.parquet' in unit

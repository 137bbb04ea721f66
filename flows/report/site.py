"""The report as files: the page of the night, one page per model, and every number explained."""

import dataclasses
import datetime as dt
import functools
import hashlib
import itertools
import logging
import pathlib
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

import polars as pl
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from flows.files import replace_file
from flows.report import plots
from flows.report.history import History, history_of
from flows.report.pages import Entry, Undrawn, blocks_of, index_page, model_page, undrawn_page
from flows.report.report_rows import Tables, read_tables, shared_by, shared_labels
from flows.report.sentences import tally_sentence
from flows.report.templating import rendered
from flows.settings import PolicySettings, TogetherSettings
from workers.exceptions import NotEvaluableError
from workers.lake.layout import check_name
from workers.plain_text import plain_text
from workers.versions import CODE_VERSION
from workers.warehouse.store import Warehouse

INDEX = "index.html"
STATISTICS = "statistics.html"
MODELS = "models"

MARK = '<meta name="generator" content="privaudit">'
"""Tells our pages from a person's own: only ours are ever removed."""
_WHY_CHARACTERS = 300
_log = logging.getLogger(__name__)


def write_report(
    warehouse: Warehouse,
    folder: str | pathlib.Path,
    *,
    total: TogetherSettings | None = None,
    policy: PolicySettings | None = None,
) -> pathlib.Path:
    """Write the report of a warehouse into a folder and return the path of its first page.

    Models on the same labels are held against the total, and each model against the policy.
    """
    tables = read_tables(warehouse)
    shared = shared_labels(warehouse, _night(tables.audits), total)
    return write_pages(dataclasses.replace(tables, shared=shared, policy=policy), folder)


def write_pages(tables: Tables, folder: str | pathlib.Path) -> pathlib.Path:
    """Write the report of some rows; the same rows give the same files, and no clock is read.

    `index.html`, `statistics.html` and `models/<model>.html`. A record's age is that on the day of
    the newest record. Each file is replaced at once, so that a reader never meets half a page, and
    `index.html` last. Pages of models that are no longer in the warehouse are removed. A page that
    cannot be drawn, for a row that is not of its table, say, costs no other: a page that says so
    stands in its place.
    """
    root = pathlib.Path(folder)
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    (root / MODELS).mkdir(exist_ok=True)
    pages = page_names(tables.audits["model"].unique())
    night = _night(tables.audits)
    shown: list[Entry | Undrawn] = []
    if night is not None:
        top, newest = _top(tables.audits), tables.audits["recorded_at"].max()
        on = newest.date() if isinstance(newest, dt.datetime) else night
        for model, audits in tables.by_model():
            mine = dataclasses.replace(tables, audits=audits)
            entry, page = _drawn(model, mine, pages[model], (night, on), top)
            _replace(root / MODELS / pages[model], page)
            shown.append(entry)
    text, _ = statistics()
    _replace(root / STATISTICS, rendered("statistics.html.j2", text=text, version=CODE_VERSION))
    _replace(
        root / INDEX,
        index_page(
            shown,
            night=night,
            withdrawals=_withdrawals(tables.withdrawals),
            secrets=tables.secrets,
            shared=tables.shared,
        ),
    )
    _remove_others(root / MODELS, pages.values())
    return root / INDEX


def _withdrawals(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return what the page of the night says of records that were taken back."""
    return [
        row | {"model": plain_text(row["model"]), "why": plain_text(row["why"][:_WHY_CHARACTERS])}
        for row in rows.iter_rows(named=True)
    ]


def _drawn(
    model: str, tables: Tables, name: str, days: tuple[dt.date, dt.date], top: float
) -> tuple[Entry | Undrawn, str]:
    """Return what the page of the night needs of a model, and its page.

    The audits of `tables` are the model's. `days` are the report's night, and that on which
    records' age is judged.
    """
    shown = plain_text(model)
    entry: Entry | Undrawn = Undrawn(shown, f"{MODELS}/{name}")
    try:
        history = history_of(model, tables.audits)
        entry = Entry(history, f"{MODELS}/{name}", _small(history, name, top))
        return entry, _page(history, tables, *days)
    except Exception as error:  # noqa: BLE001  # one model's rows cost no other its page
        _log.exception("The page of %s cannot be drawn.", shown)
        return entry, undrawn_page(shown, type(error).__name__, night=days[0])


def _page(history: History, tables: Tables, night: dt.date, on: dt.date) -> str:
    model, last = history.model, history.evaluated[-1].audit_id if history.evaluated else ""
    shared = shared_by(model, tables.shared) if history.latest.day == night else None
    return model_page(
        history,
        tables.details(last),
        night=night,
        blocks=blocks_of(history.latest, tables.policy, on, shared),
        secrets=[one for one in tables.secrets if one.model == model],
        acknowledged=[one.sentence() for one in tables.acknowledged if one.model == model],
    )


def _small(history: History, name: str, top: float) -> Markup:
    if not history.evaluated:
        return Markup()
    return plots.draw_trend(history, plots.TREND_SMALL, top=top).inline_svg(
        name.removesuffix(".html"),
        title=f"{history.model}: every night",
        description=f"{tally_sentence(history)} Its page has the numbers.",
        css_class="plot",
    )


def _night(audits: pl.DataFrame) -> dt.date | None:
    """Return the report's night: the newest audited day, None where there is none."""
    newest: dt.date | None = audits["day"].max()  # type: ignore[assignment]  # polars' union
    return newest


def _top(audits: pl.DataFrame) -> float:
    """Return the largest epsilon that any model's small plot shows; all share one scale."""
    shown = {"epsilon_lower", "epsilon_lower_28_days", "epsilon_declared", "sees_from_together"}
    columns = [audits[name] for name in audits.columns if name in shown]
    values = pl.concat([column.cast(pl.Float64).rename("value") for column in columns])
    most = values.filter(values.is_finite()).max()
    # One model that declares 10^26 must not flatten the plots of all others.
    return min(plots.TREND_LEVELS[-1], max(1.0, float(most) if isinstance(most, float) else 1.0))


def _replace(path: pathlib.Path, text: str) -> None:
    replace_file(path, text.encode())


def page_name(model: str) -> str:
    """Return the file name of a model's page, whatever the model is called."""
    try:
        return f"{check_name('model', model)}.html"
    except NotEvaluableError:
        return _digest_name(model)


def page_names(models: Iterable[str]) -> dict[str, str]:
    """Return the file name of each model's page; all differ, also where case does not count.

    >>> page_names(["ads", "Ads"])
    {'Ads': 'Ads.html', 'ads': 'model-788eb2efc52660fe.html'}
    """
    names: dict[str, str] = {}
    for model in sorted(models):
        taken = {name.casefold() for name in names.values()}
        name, digest = page_name(model), model
        while name.casefold() in taken:  # a model may be called like the digest of another's name
            name, digest = _digest_name(digest), _digest_name(digest)
        names[model] = name
    return names


def _digest_name(model: str) -> str:
    return f"model-{hashlib.sha256(model.encode()).hexdigest()[:16]}.html"


def _remove_others(folder: pathlib.Path, kept: Container[str]) -> None:
    """Remove our own pages of models that are gone: a stale verdict is a wrong one."""
    for path in folder.glob("*.html"):
        if path.name not in kept and MARK.encode() in path.read_bytes()[:2000]:
            path.unlink()


COLUMN = re.compile(r"[a-z][a-z0-9_]*")


def source(name: str) -> pathlib.Path:
    """Return the path of a text of docs/: within the installed package, or in the checkout."""
    packaged = pathlib.Path(__file__).with_name(pathlib.PurePath(name).name)
    return packaged if packaged.exists() else packaged.parents[2] / "docs" / name


@functools.cache
def statistics() -> tuple[Markup, frozenset[str]]:
    """Return numbers.md and, as its last part, limitations.md as HTML, and the anchors in it.

    A link to another page becomes the path of that page: a report holds no other pages of docs/.
    A heading that lists columns ("epsilon_declared, epsilon_accounted") can be reached by the name
    of each; any other by its words in lower case, joined by hyphens.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("table_open", _open_table)
    markdown.add_render_rule("table_close", lambda *_: "</table></div>\n")
    figures, limits = (
        source(name).read_text(encoding="utf-8")
        for name in ("reference/numbers.md", "explanation/limitations.md")
    )
    tokens = markdown.parse(f"{figures}\n#{limits}")  # its title is a heading of the second rank
    found: list[str] = []
    for heading, inline in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            names = anchors_of(inline.content)
            found += names
            heading.attrSet("id", names[0])
            assert inline.children is not None  # noqa: S101  # narrows markdown-it's type
            inline.children[:0] = [
                Token("html_inline", "", 0, content=f'<span id="{name}"></span>')
                for name in names[1:]
            ]
    for token in tokens:
        _without_links(token.children or [])
    text = markdown.renderer.render(tokens, markdown.options, {})
    return Markup(text), frozenset(found)  # noqa: S704  # our own file, its HTML disabled


def anchors_of(heading: str) -> list[str]:
    """Return the anchors of a heading: each column it names, or its words."""
    names = heading.split(", ")
    if all(COLUMN.fullmatch(name) and "_" in name for name in names):
        return names
    return [re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")]


def _without_links(children: Sequence[Token]) -> None:
    """Put the path of a linked page in place of the link; links within the page stay."""
    path = ""
    for token in children:
        if token.type == "link_open" and not str(token.attrGet("href")).startswith("#"):
            path = str(token.attrGet("href")).partition("#")[0].lstrip("./")
            token.type, token.tag, token.nesting = "text", "", 0
        elif token.type == "link_close" and path:
            token.type, token.tag, token.nesting = "text", "", 0
            token.content, path = f", docs/{path}", ""


def _open_table(_self: object, tokens: Sequence[Token], place: int, *_: object) -> str:
    """Let a wide table scroll by itself, also by keyboard."""
    number = sum(token.type == "table_open" for token in tokens[: place + 1])
    return f'<div class="scroll" role="region" tabindex="0" aria-label="Table {number}"><table>\n'

"""Explanations of the figures and of their limits from docs/, as a page that figures link to."""

import functools
import itertools
import pathlib
import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

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
    markdown.add_render_rule("table_close", _close_table)
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


def _close_table(*_: object) -> str:
    return "</table></div>\n"

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
    packaged = pathlib.Path(__file__).with_name(name)
    return packaged if packaged.exists() else packaged.parents[2] / "docs" / packaged.name


@functools.cache
def statistics() -> tuple[Markup, frozenset[str]]:
    """Return statistics.md and, as its last part, limitations.md as HTML, and the anchors in it.

    A heading that lists columns ("epsilon_declared, epsilon_accounted") can be reached by the name
    of each; any other by its words in lower case, joined by hyphens.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("table_open", _open_table)
    markdown.add_render_rule("table_close", _close_table)
    figures, limits = (
        source(name).read_text(encoding="utf-8") for name in ("statistics.md", "limitations.md")
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
    text = markdown.renderer.render(tokens, markdown.options, {})
    return Markup(text), frozenset(found)  # noqa: S704  # our own file, its HTML disabled


def anchors_of(heading: str) -> list[str]:
    """Return the anchors of a heading: each column it names, or its words."""
    names = heading.split(", ")
    if all(COLUMN.fullmatch(name) and "_" in name for name in names):
        return names
    return [re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")]


def _open_table(_self: object, tokens: Sequence[Token], place: int, *_: object) -> str:
    """Let a wide table scroll by itself, also by keyboard."""
    number = sum(token.type == "table_open" for token in tokens[: place + 1])
    return f'<div class="scroll" role="region" tabindex="0" aria-label="Table {number}"><table>\n'


def _close_table(*_: object) -> str:
    return "</table></div>\n"

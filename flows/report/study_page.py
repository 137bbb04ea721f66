"""The page of a study: what was found, its tables and its drawings, in the report's look."""

import base64
import html
import os
import pathlib
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from flows.files import read_plain
from flows.report.templating import rendered
from workers.plain_text import plain_text
from workers.versions import CODE_VERSION

STUDIES = "studies"
"""The folder of a report in which it looks for studies' folders."""
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_HEAD = 2_000


@dataclass(frozen=True, slots=True)
class StudyTable:
    """A table as it is printed.

    Attributes:
        title: above it.
        columns: each column's name, and whether it holds numbers.
        rows: one text for each column.
    """

    title: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class StudyLink:
    """A study that lies in a report's folder."""

    href: str
    title: str


def study_page(
    title: str,
    sentences: Sequence[str],
    tables: Sequence[StudyTable],
    drawings: Sequence[pathlib.Path],
    *,
    root: str | None,
) -> str:
    """Return the page as text; it needs no other file."""
    drawn = [
        (drawing.stem.replace("_", " "), base64.b64encode(drawing.read_bytes()).decode())
        for drawing in drawings
    ]
    return rendered(
        "study.html.j2",
        title=title,
        sentences=sentences,
        tables=tables,
        drawings=drawn,
        root=root,
        version=CODE_VERSION,
    )


def find_studies(root: pathlib.Path, *, mark: str) -> list[StudyLink]:
    """Return the studies whose pages lie in a report's folder, by their folders' names.

    Args:
        root: of the report.
        mark: what tells our pages from a person's own.
    """
    found = []
    for path in sorted((root / STUDIES).glob("*/index.html")):
        head = (read_plain(path) or b"").decode(errors="replace")[:_HEAD]
        title = _TITLE.search(head)
        if mark in head and title is not None:
            name = urllib.parse.quote(os.fsencode(path.parent.name))
            shown = plain_text(html.unescape(title.group(1)))
            found.append(StudyLink(f"{STUDIES}/{name}/index.html", shown))
    return found

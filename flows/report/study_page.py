"""The page of a study: what was found, its tables and its drawings, in the report's look."""

import base64
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from flows.report.templating import rendered
from workers.versions import CODE_VERSION


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


def study_page(
    title: str,
    sentences: Sequence[str],
    tables: Sequence[StudyTable],
    drawings: Sequence[pathlib.Path],
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
        version=CODE_VERSION,
    )

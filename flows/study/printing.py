"""What the studies write alike, and who works for them."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import polars as pl
from rich.table import Table
from rich.text import Text

from flows.progress import announce
from flows.report.study_page import STUDIES, StudyTable, study_page
from privcore.upper_bounds import Published
from workers.executors import Executor

_STARTING = "Starting workers"


@dataclass(frozen=True, slots=True)
class Written:
    """What a study came to: tables and findings to print, and where the files are."""

    tables: tuple[Table, ...]
    sentences: tuple[str, ...]
    files: tuple[pathlib.Path, ...]


@contextlib.contextmanager
def workers_here(start: Callable[[], AbstractContextManager[Executor]]) -> Iterator[Executor]:
    """Yield the executor that `start` makes; that takes seconds, so it is announced."""
    announce(_STARTING, 0, 1)
    with start() as executor:
        announce(_STARTING, 1, 1)
        yield executor


def titled_table(title: str) -> Table:
    """Return an empty table in the studies' style."""
    return Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)


def published_table(published: Sequence[Published], *, title: str) -> Table:
    """Return what papers print beside what was computed, with a verdict on every number."""
    table = titled_table(title)
    table.add_column("place", no_wrap=True)
    table.add_column("quantity")
    table.add_column("printed", justify="right")
    table.add_column("here", justify="right")
    table.add_column("verdict", ratio=1)
    several = len({each.paper for each in published}) > 1
    paper = ""
    for each in published:
        if several and each.paper != paper:
            paper = each.paper
            table.add_row("", f"[italic]{paper}[/]")
        table.add_row(each.place, each.quantity, each.printed, each.computed, each.verdict)
    return table


def published_rows(published: Sequence[Published]) -> pl.DataFrame:
    """Return the same as rows for programs: every number with its paper."""
    names = ("paper", "place", "quantity", "printed", "computed", "verdict")
    rows = [{name: getattr(each, name) for name in names} for each in published]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def write_study(
    tables: Sequence[Table],
    sentences: Sequence[str],
    files: Sequence[pathlib.Path],
    *,
    title: str,
) -> Written:
    """Write a page of tables, findings and drawings beside the files, and return all of it.

    Below a folder `studies`, the page leads back to the report whose folder that is in.
    """
    folder = files[0].parent
    page = folder / "index.html"
    drawings = [file for file in files if file.suffix == ".svg"]
    root = "../../" if folder.absolute().parent.name == STUDIES else None
    shown = [as_shown(table) for table in tables]
    page.write_text(study_page(title, sentences, shown, drawings, root=root), encoding="utf-8")
    return Written(tuple(tables), tuple(sentences), (*files, page))


def as_shown(table: Table) -> StudyTable:
    """Return a printed table's words without its markup."""
    columns = [(_plain(column.header), column.justify == "right") for column in table.columns]
    cells = [[_plain(cell) for cell in column.cells] for column in table.columns]
    return StudyTable(_plain(table.title), columns, list(zip(*cells, strict=True)))


def _plain(text: object) -> str:
    return Text.from_markup(str(text)).plain.replace("\n", " ")

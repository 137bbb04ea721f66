"""What the studies print alike, and who works for them."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.table import Table

from flows.progress import announce
from privcore.upper_bounds import Published
from workers.executors import Executor

_STARTING = "Starting workers"


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
    table.add_column("", ratio=1)
    several = len({each.paper for each in published}) > 1
    paper = ""
    for each in published:
        if several and each.paper != paper:
            paper = each.paper
            table.add_row("", f"[italic]{paper}[/]")
        table.add_row(each.place, each.quantity, each.printed, each.computed, each.verdict)
    return table


def print_study(
    console: Console,
    tables: Sequence[Table],
    sentences: Sequence[str],
    files: Sequence[pathlib.Path],
) -> None:
    """Print tables, findings and where the files are, in parts that a person can tell apart."""
    for table in tables:
        console.print(table)
        console.print()
    for sentence in sentences:
        console.print(f"- {sentence}", highlight=False)
    console.print()
    for file in files:
        console.print(str(file), soft_wrap=True, highlight=False)

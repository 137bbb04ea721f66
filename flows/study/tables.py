"""The studies' tables: rows by formats, and what papers print beside what was computed."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from flows.report.study_page import StudyTable
from privcore.upper_bounds import Published

CellRow = dict[str, Any]
Show = str | Callable[[CellRow], str]
"""Form of a cell: a format of its row's values, or a function of the row."""


def table_of(
    title: str,
    rows: Iterable[CellRow],
    columns: Mapping[str, Show],
    *,
    text: Sequence[str] = (),
    wide: Sequence[str] = (),
) -> StudyTable:
    """Return a table with one line for each row.

    Args:
        title: above it.
        rows: what is shown.
        columns: each column's name and how its cells are written.
        text: the columns that hold words; the others hold numbers.
        wide: the columns that a narrow terminal leaves out.
    """
    cells = [
        tuple(
            show.format(**row) if isinstance(show, str) else show(row) for show in columns.values()
        )
        for row in rows
    ]
    names = [(name, name not in text) for name in columns]
    return StudyTable(title, names, cells, wide=tuple(wide))


def value_of(name: str, form: str = "{}") -> Show:
    """Return how a value is written whose name is no Python name."""
    return lambda row: form.format(row[name])


def published_rows(published: Sequence[Published], *, unjudged: str = "") -> pl.DataFrame:
    """Return every printed value beside ours, with a verdict on it.

    The one rule for verdicts: a value is judged only at the scale and on the data of the paper.
    """
    names = ("paper", "place", "quantity", "printed", "computed", "verdict")
    judged = [
        replace(each, agrees=None, remark=unjudged)
        if unjudged and each.agrees is not None and not each.exact
        else each
        for each in published
    ]
    rows = [{name: getattr(each, name) for name in names} for each in judged]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def published_table(rows: pl.DataFrame) -> StudyTable:
    """Return the same as a table."""
    columns = {"place": "{place}", "quantity": "{quantity}", "printed": "{printed}"}
    columns |= {"here": "{computed}", "verdict": "{verdict}"}
    if rows["paper"].n_unique() > 1:
        columns = {"paper": "{paper}", **columns}
    text = ("paper", "place", "quantity", "verdict")
    return table_of("Printed values and ours", rows.to_dicts(), columns, text=text)


def binomial_error(share: float, trials: int) -> float:
    """Return the standard error of a share of a number of trials."""
    return math.sqrt(share * (1.0 - share) / trials)


def same_share(ours: float, trials: int, printed: float, printed_trials: int) -> bool:
    """Return whether two shares differ by at most two standard errors of their difference."""
    error = math.sqrt(printed * (1.0 - printed) * (1.0 / trials + 1.0 / printed_trials))
    return abs(ours - printed) <= 2.0 * error


def paragraphs(text: str) -> list[str]:
    """Return a text's paragraphs, which empty lines part, each on one line."""
    return [" ".join(part.split()) for part in text.strip().split("\n\n")]

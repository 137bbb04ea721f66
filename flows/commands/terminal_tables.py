"""Warehouse rows as tables on a terminal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.next_steps import counted
from privcore.lower_bounds.question import named
from privcore.lower_bounds.verdicts import ReasonCode
from privcore.rounding import ABSENT, down, guarantee, up
from workers.plain_text import in_reading_order, plain_text

_STYLES = {
    "violated": "bold red",
    "failed": "magenta",
    "inconclusive": "yellow",
    "not_refuted": "green",
    "undeclared": "cyan",
}
_FOOT = (
    "proved: the loss is at least this; 0 shows nothing. sees_from: the smallest leak of every "
    "label that the last night would have shown; together: that all its nights would have. "
    "not_refuted: together is at most twice what is declared, and at most 1 more. It is no proof; "
    "nothing else is an argument for serving a model."
)

_LEAST_FIRST = (
    "next", "nights", "acknowledged until", "audit_id", "sees_from", "together", "declared",
    "proved", "reason_code",
)  # fmt: skip
"""Columns in the order in which they go where there is no room."""
_FIGURES = {"declared", "proved", "sees_from", "together", "nights"}
_STEPS = 12
"""Models whose next step is said below the table."""
SHORT_ID = 8
"""Characters of an audit's id that are shown at least."""


def audits_table(audits: pl.DataFrame, *, width: int) -> RenderableType:
    """Return the audits as a table that fits `width` characters.

    Model, verdict and day always; the reason, what is proved and declared, what would have been
    seen, the next step and the audit's id where there is room for them. The verdict is that of the
    model's nights together, where the audits have it.
    """
    columns = _columns(audits)
    widths = {name: max(map(cell_len, cells)) for name, cells in columns.items()}
    for name in _LEAST_FIRST:
        if sum(widths[each] + 1 for each in columns) - 1 <= width:
            break
        columns.pop(name, None)
    steps = [] if "next" in columns else _steps(audits)
    verdicts = [_verdict(row) for row in audits.iter_rows(named=True)]
    foot = f"{counted(verdicts)} {_FOOT if 'sees_from' in columns else ''}".strip()
    return Group(_lines(columns, widths), Text(foot, style="table.caption"), *steps)


def _steps(audits: pl.DataFrame) -> list[Text]:
    """Return what to do first about the worst models, where the table has no room for it."""
    if "next_step" not in audits.columns:
        return []
    worst = audits.unique(["model", "secret"], keep="first", maintain_order=True).head(_STEPS)
    return [
        _shown(f"{named(row['model'], row['secret'])} ({row['next_who']}): {row['next_step']}")
        for row in worst.iter_rows(named=True)
    ]


def _verdict(row: dict[str, Any]) -> str:
    return str(row.get("verdict_together") or row["verdict"])


def _proved(row: dict[str, Any]) -> float | None:
    """Return the night's bound; that of the nights together where these alone refute."""
    alone: float | None = row["epsilon_lower"]
    if row.get("reason_code_together") != ReasonCode.NIGHTS_TOGETHER:
        return alone
    return max(alone or 0.0, row["epsilon_standing"] or 0.0)


def _columns(audits: pl.DataFrame) -> dict[str, list[str]]:
    """Return every column that there are figures for: its name, and below it its cells."""
    rows, there = list(audits.iter_rows(named=True)), set(audits.columns)
    ids = _short_ids(audits["audit_id"].to_list() if "audit_id" in there else [])
    together, until = "verdict_together" in there, "acknowledged_until"
    code = "reason_code_together" if together else "reason_code"
    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "model": lambda row: named(row["model"], row["secret"]),
        "verdict": _verdict,
        "declared": lambda row: guarantee(row["epsilon_declared"], row.get("delta_declared")),
        "proved": lambda row: down(_proved(row)),
        "sees_from": lambda row: up(row["sees_from"]),
        "together": lambda row: up(row["sees_from_together"]),
        "nights": lambda row: str(row["nights_together"] or ABSENT),
        "as_of": lambda row: str(row["day"]),
        "reason_code": lambda row: row[code] or ABSENT,
        "audit_id": lambda row: ids[row["audit_id"]],
        "acknowledged until": lambda row: str(row[until] or ABSENT),
        "next": lambda row: row["next_step"],
    }
    has = {"together": together, "nights": together, "audit_id": "audit_id" in there}
    has["acknowledged until"] = until in there and audits[until].null_count() < audits.height
    has["next"] = "next_step" in there
    return {
        name: [name, *(in_reading_order(plain_text(cell(row))) for row in rows)]
        for name, cell in cells.items()
        if has.get(name, True)
    }


def _lines(columns: dict[str, list[str]], widths: dict[str, int]) -> Text:
    """Return a table of which no cell is folded: a table of rich measures each, and takes long."""
    padded = []
    for name, cells in columns.items():
        blanks = (" " * (widths[name] - cell_len(text)) for text in cells)
        pairs = zip(blanks, cells, strict=True)
        padded.append([blank + text if name in _FIGURES else text + blank for blank, text in pairs])
    header, *rows = zip(*padded, strict=True)
    lines = Text(" ".join(header), no_wrap=True, overflow="ignore")
    lines.stylize("bold")
    for model, verdict, *others in rows:
        lines.append(f"\n{model} ").append(verdict, style=_STYLES.get(verdict.rstrip(), ""))
        lines.append(" ".join(["", *others]))
    return lines


def _short_ids(ids: list[str]) -> dict[str, str]:
    """Return the shortest beginnings, of eight characters at least, that tell the ids apart."""
    length = SHORT_ID
    while len({one[:length] for one in ids}) < len(set(ids)):
        length += 1
    return {one: one[:length] for one in ids}


def frame_table(frame: pl.DataFrame) -> Table:
    """Return any frame as a table."""
    rows = (map(_cell, row) for row in frame.iter_rows())
    return text_table([(name, False) for name in frame.columns], rows)


def text_table(
    columns: Sequence[tuple[str, bool]], rows: Iterable[Iterable[str]], *, title: str | None = None
) -> Table:
    """Return a table of names, each with whether its column is of numbers, and of cells."""
    table = Table(
        title=None if title is None else Text(title),
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for name, number in columns:
        table.add_column(_shown(name), justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(_shown, row))
    return table


def _cell(value: object) -> str:
    """Return a value as text; of a float the digits that it was written with, as 6.6."""
    if isinstance(value, float):
        value = float(f"{value:.15g}")
    return "" if value is None else str(value)


def _shown(text: str) -> Text:
    """Return text that a terminal shows as it is: no markup, and no character that it obeys."""
    return Text(in_reading_order(plain_text(text)))

"""Warehouse rows as tables on a terminal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.markup import escape
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

_STEPS = 12
"""Models whose next step is said below the table."""
SHORT_ID = 8
"""Characters of an audit's id that are shown at least."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the table of audits; `rank` says which go first where there is no room."""

    name: str
    cells: list[str]
    rank: int = 0
    right: bool = False

    def width(self) -> int:
        """Return how many characters its longest cell takes."""
        return max(map(cell_len, (self.name, *self.cells)))

    def style(self, text: str) -> str:
        """Return how a cell is coloured."""
        return _STYLES.get(text, "") if self.name in {"verdict", "this night"} else ""

    def padded(self) -> Iterator[tuple[str, str]]:
        """Yield name and cells, each as wide as the column, with their styles."""
        width = self.width()
        for text in (self.name, *self.cells):
            blank = " " * (width - cell_len(text))
            yield blank + text if self.right else text + blank, self.style(text)


def audits_table(audits: pl.DataFrame, *, width: int) -> RenderableType:
    """Return the audits as a table that fits `width` characters.

    Model, verdict and day always; the reason, what is proved and declared, what would have been
    seen, the next step and the audit's id where there is room for them. The verdict is that of the
    model's nights together, where the audits have it.
    """
    every = _columns(audits)
    columns = _fitting(every, width)
    steps = [] if every[-1] in columns else _steps(audits)
    seen = any(column.name.startswith("sees_from") for column in columns)
    verdicts = [_verdict(row) for row in audits.iter_rows(named=True)]
    foot = f"{counted(verdicts)} {_FOOT if seen else ''}".strip()
    return Group(_lines(columns), Text(foot, style="table.caption"), *steps)


def _steps(audits: pl.DataFrame) -> list[Text]:
    """Return what to do first about the worst models, where the table has no room for it."""
    if "next_step" not in audits.columns:
        return []
    said = [
        f"{named(row['model'], row['secret'])} ({row['next_who']}): {row['next_step']}"
        for row in audits.unique(["model", "secret"], keep="first", maintain_order=True)
        .head(_STEPS)
        .iter_rows(named=True)
    ]
    return [Text(in_reading_order(plain_text(one))) for one in said]


def _verdict(row: dict[str, Any]) -> str:
    return str(row.get("verdict_together") or row["verdict"])


def _proved(row: dict[str, Any]) -> float | None:
    """Return the night's bound; that of the nights together where these alone refute."""
    alone: float | None = row["epsilon_lower"]
    if row.get("reason_code_together") != ReasonCode.NIGHTS_TOGETHER:
        return alone
    return max(alone or 0.0, row["epsilon_standing"] or 0.0)


def _lines(columns: list[_Column]) -> Text:
    """Return a table of which no cell is folded: a table of rich measures each, and takes long."""
    lines = Text(no_wrap=True, overflow="ignore")
    header, *rows = zip(*(column.padded() for column in columns), strict=True)
    lines.append(" ".join(text for text, _ in header), style="bold")
    for row in rows:
        lines.append("\n")
        for place, (text, style) in enumerate(row):
            lines.append(" " if place else "").append(text, style=style)
    return lines


def _columns(audits: pl.DataFrame) -> list[_Column]:
    """Return every column that there are figures for, the ones that are always shown first."""
    rows = list(audits.iter_rows(named=True))
    ids = _short_ids(audits["audit_id"].to_list() if "audit_id" in audits.columns else [])

    def cells(cell: Callable[[dict[str, Any]], str]) -> list[str]:
        return [in_reading_order(plain_text(cell(row))) for row in rows]

    def figures(name: str, text: Callable[[float | None], str] = down) -> list[str]:
        return [text(row[name]) for row in rows]

    together = "verdict_together" in audits.columns
    code = "reason_code_together" if together else "reason_code"
    columns = [
        _Column("model", cells(lambda row: named(row["model"], row["secret"]))),
        _Column("verdict", cells(_verdict)),
        _Column(
            "declared",
            cells(lambda row: guarantee(row["epsilon_declared"], row.get("delta_declared"))),
            3,
            right=True,
        ),
        _Column("proved", [down(_proved(row)) for row in rows], 2, right=True),
        _Column("sees_from", figures("sees_from", up), 5, right=True),
    ]
    if together:
        columns += [
            _Column("together", figures("sees_from_together", up), 4, right=True),
            _Column(
                "nights", cells(lambda row: str(row["nights_together"] or ABSENT)), 8, right=True
            ),
        ]
    columns += [
        _Column("as_of", cells(lambda row: str(row["day"]))),
        _Column("reason_code", cells(lambda row: row[code] or ABSENT), 1),
    ]
    if "audit_id" in audits.columns:
        columns.append(_Column("audit_id", cells(lambda row: ids[row["audit_id"]]), 6))
    if _any_acknowledged(audits):
        until = cells(lambda row: str(row["acknowledged_until"] or ABSENT))
        columns.append(_Column("acknowledged until", until, 7))
    if "next_step" in audits.columns:
        columns.append(_Column("next", cells(lambda row: row["next_step"]), 9))
    return columns


def _any_acknowledged(audits: pl.DataFrame) -> bool:
    name = "acknowledged_until"
    return name in audits.columns and audits[name].null_count() < audits.height


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    """Leave out the last in rank until the others fit."""
    widths = {column.name: column.width() for column in columns}
    kept = list(columns)
    while sum(widths[one.name] + 1 for one in kept) - 1 > width:
        last = max(kept, key=lambda column: column.rank)
        if last.rank == 0:
            break
        kept.remove(last)
    return kept


def _short_ids(ids: list[str]) -> dict[str, str]:
    """Return the shortest beginnings, of eight characters at least, that tell the ids apart."""
    length = SHORT_ID
    while len({one[:length] for one in ids}) < len(set(ids)):
        length += 1
    return {one: one[:length] for one in ids}


def frame_table(frame: pl.DataFrame) -> Table:
    """Return any frame as a table."""
    table = Table(*map(_shown, frame.columns), header_style="bold", box=None, pad_edge=False)
    for row in frame.iter_rows():
        table.add_row(*map(_cell, row))
    return table


def _cell(value: object) -> str:
    """Return a value as text; of a float the digits that it was written with, as 6.6."""
    if isinstance(value, float):
        value = float(f"{value:.15g}")
    return "" if value is None else _shown(str(value))


def _shown(text: str) -> str:
    """Return text that a terminal shows as it is: no markup, and no character that it obeys."""
    return escape(in_reading_order(plain_text(text)))

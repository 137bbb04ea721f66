"""Warehouse rows as tables on a terminal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from flows.notify.naming import named
from privcore.rounding import ABSENT, down, guarantee, up
from workers.plain_text import plain_text

_STYLES = {
    "violated": "bold red",
    "not_a_guarantee": "bold red",
    "vacuous": "yellow",
    "proxy_unfaithful": "yellow",
    "not_evaluable": "yellow",
    "consistent": "green",
    "undeclared": "cyan",
    "privatised": "cyan",
}

SHORT_ID = 8
"""Characters of an audit's id that are shown at least."""
_PAPER = "paper*"
_NAME = 24
"""A longer name is folded where the columns beside it have no room else."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the table of audits; `rank` says which go first where there is no room."""

    name: str
    cell: Callable[[dict[str, Any]], str]
    rank: int = 0
    right: bool = False


def audits_table(audits: pl.DataFrame, *, width: int) -> Table:
    """Return the audits as a table that fits `width` characters.

    Day, model and verdict always; the bound, the declaration, how the model stands, the audit's id
    and what to compare the bound with where there is room for them.
    """
    rows = list(audits.iter_rows(named=True))
    columns = _fitting(_columns(audits), rows, width)
    paper = any(column.name == _PAPER for column in columns)
    table = Table(
        header_style="bold",
        box=None,
        pad_edge=False,
        collapse_padding=True,
        caption="* the paper's own figure, uncorrected: it reads too high" if paper else None,
        caption_justify="left",
    )
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=column.name != "model",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_styled(column, row) for column in columns))
    return table


def _columns(audits: pl.DataFrame) -> list[_Column]:
    ids = _short_ids(audits["audit_id"].to_list() if "audit_id" in audits.columns else [])
    columns = [
        _Column("day", lambda row: str(row["day"])),
        _Column("model", lambda row: named(row["model"], row.get("secret"))),
        _Column("epsilon_lower", lambda row: down(row["epsilon_lower"]), 1, right=True),
        _Column(
            "declared",
            lambda row: guarantee(row["epsilon_declared"], row.get("delta_declared")),
            2,
            right=True,
        ),
        _Column("verdict", lambda row: str(row["verdict"])),
    ]
    further = {
        "standing": _Column("standing", lambda row: row["standing"] or ABSENT, 3),
        "audit_id": _Column("audit_id", lambda row: ids[row["audit_id"]], 4),
        "acknowledged_until": _Column(
            "acknowledged until", lambda row: str(row["acknowledged_until"] or ABSENT), 5
        ),
        "epsilon_standing": _Column(
            "epsilon_standing", lambda row: down(row["epsilon_standing"]), 6, right=True
        ),
        "epsilon_ceiling": _Column(
            "ceiling", lambda row: up(row["epsilon_ceiling"]), 7, right=True
        ),
        "control_epsilon_lower": _Column(
            "control", lambda row: down(row["control_epsilon_lower"]), 8, right=True
        ),
        "epsilon_paper": _Column(_PAPER, lambda row: down(row["epsilon_paper"]), 9, right=True),
    }
    if not _any_acknowledged(audits):
        del further["acknowledged_until"]
    return columns + [column for name, column in further.items() if name in audits.columns]


def _any_acknowledged(audits: pl.DataFrame) -> bool:
    name = "acknowledged_until"
    return name in audits.columns and audits[name].null_count() < audits.height


def _fitting(columns: list[_Column], rows: list[dict[str, Any]], width: int) -> list[_Column]:
    """Leave out the last in rank until the others fit."""
    widths = {
        column.name: max(len(column.name), *(cell_len(column.cell(row)) for row in rows), 0)
        for column in columns
    }
    widths["model"] = min(widths["model"], _NAME)
    kept = list(columns)
    while sum(widths[one.name] + 1 for one in kept) - 1 > width:
        last = max(kept, key=lambda column: column.rank)
        if last.rank == 0:
            break
        kept.remove(last)
    return kept


def _styled(column: _Column, row: dict[str, Any]) -> str:
    text = _shown(column.cell(row))
    if column.name in {"verdict", "standing"} and text in _STYLES:
        return f"[{_STYLES[text]}]{text}[/]"
    return text


def _short_ids(ids: list[str]) -> dict[str, str]:
    """Return the shortest beginnings, of eight characters at least, that tell the ids apart."""
    length = SHORT_ID
    while len({one[:length] for one in ids}) < len(set(ids)):
        length += 1
    return {one: one[:length] for one in ids}


def frame_table(frame: pl.DataFrame) -> Table:
    """Return any frame as a table."""
    table = Table(*frame.columns, header_style="bold", box=None, pad_edge=False)
    for row in frame.iter_rows():
        table.add_row(*("" if value is None else _shown(str(value)) for value in row))
    return table


def _shown(text: str) -> str:
    """Return text that a terminal shows as it is: no markup, and no character that it obeys."""
    return escape(plain_text(text))

"""Warehouse rows as tables on a terminal."""

import math

import polars as pl
from rich.markup import escape
from rich.table import Table

_STYLES = {
    "violated": "bold red",
    "proxy_unfaithful": "yellow",
    "not_evaluable": "yellow",
    "consistent": "green",
    "undeclared": "cyan",
}


def audits_table(audits: pl.DataFrame) -> Table:
    """Return the audits as a table: bound, declaration, what to compare them with, and verdict."""
    table = Table(
        header_style="bold",
        box=None,
        pad_edge=False,
        collapse_padding=True,
        caption="* the paper's own figure, uncorrected: it reads too high",
        caption_justify="left",
    )
    for name in ("day", "model"):
        table.add_column(name, no_wrap=True)
    for name in ("epsilon_lower", "declared"):
        table.add_column(name, justify="right", no_wrap=True)
    # On a narrow terminal these give way.
    for name in ("ceiling", "control", "paper*"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for audit in audits.iter_rows(named=True):
        style = _STYLES[audit["verdict"]]
        table.add_row(
            str(audit["day"]),
            escape(audit["model"]),
            _bound(audit["epsilon_lower"]),
            "-" if audit["epsilon_declared"] is None else f"{audit['epsilon_declared']:g}",
            _bound(audit["epsilon_ceiling"]),
            _bound(audit["control_epsilon_lower"]),
            _bound(audit["epsilon_paper"]),
            f"[{style}]{audit['verdict']}[/]",
        )
    return table


def frame_table(frame: pl.DataFrame) -> Table:
    """Return any frame as a table."""
    table = Table(*frame.columns, header_style="bold", box=None, pad_edge=False)
    for row in frame.iter_rows():
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    return table


def _bound(value: float | None) -> str:
    """Return a lower bound with two decimals, rounded towards zero."""
    return "-" if value is None else f"{math.floor(value * 100) / 100:.2f}"

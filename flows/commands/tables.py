"""Warehouse rows as tables on a terminal."""

import polars as pl
from rich.markup import escape
from rich.table import Table

from flows.notify.naming import named
from privcore.rounding import down, exact, up
from workers.plain_text import plain_text

_STYLES = {
    "violated": "bold red",
    "not_a_guarantee": "bold red",
    "proxy_unfaithful": "yellow",
    "not_evaluable": "yellow",
    "consistent": "green",
    "undeclared": "cyan",
}

_WIDE = 100
_FIGURES = (
    ("standing", "epsilon_standing", down),
    ("ceiling", "epsilon_ceiling", up),
    ("control", "control_epsilon_lower", down),
    ("paper*", "epsilon_paper", down),
)


def audits_table(audits: pl.DataFrame, *, width: int) -> Table:
    """Return the audits as a table that fits `width` characters.

    Day, model, bound, declaration and verdict always; what to compare them with where there is
    room for it.
    """
    wide = width >= _WIDE
    figures = [figure for figure in _FIGURES if wide and figure[1] in audits.columns]
    table = Table(
        header_style="bold",
        box=None,
        pad_edge=False,
        collapse_padding=True,
        caption="* the paper's own figure, uncorrected: it reads too high" if wide else None,
        caption_justify="left",
    )
    for name in ("day", "model"):
        table.add_column(name, no_wrap=True)
    for name in ("epsilon_lower", "declared"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, _, _ in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for audit in audits.iter_rows(named=True):
        style = _STYLES[audit["verdict"]]
        table.add_row(
            str(audit["day"]),
            _shown(named(audit["model"], audit.get("secret"))),
            down(audit["epsilon_lower"]),
            exact(audit["epsilon_declared"]),
            f"[{style}]{audit['verdict']}[/]",
            *(rounded(audit[column]) for _, column, rounded in figures),
        )
    return table


def frame_table(frame: pl.DataFrame) -> Table:
    """Return any frame as a table."""
    table = Table(*frame.columns, header_style="bold", box=None, pad_edge=False)
    for row in frame.iter_rows():
        table.add_row(*("" if value is None else _shown(str(value)) for value in row))
    return table


def _shown(text: str) -> str:
    """Return text that a terminal shows as it is: no markup, and no character that it obeys."""
    return escape(plain_text(text))

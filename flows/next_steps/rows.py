"""Cards of rows as the warehouse gives them, with their standing."""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from flows.next_steps.card import Card, Conclusion, card_of
from flows.next_steps.steps import Role, look
from privcore.lower_bounds import Verdict
from workers.warehouse.schema import AuditRow

_UNREADABLE = Card(
    conclusion=Conclusion.NO_FIGURE,
    figures="",
    allows="The row cannot be read as an audit's, so it allows nothing. This is not a zero.",
    odds="",
    steps=(
        look(
            Role.AUDITOR,
            "This row cannot be read as an audit's. Ask who wrote it, and check the warehouse with "
            "privaudit verify --stored.",
        ),
    ),
)


def cards_of(audits: pl.DataFrame) -> Iterator[tuple[dict[str, Any], Card]]:
    """Yield each row with its card, also a row that no audit wrote.

    Args:
        audits: current records with the column `standing`, as `with_windows` returns them. Columns
            that no record has are passed over; a NaN counts as no figure.
    """
    for row in audits.iter_rows(named=True):
        yield row, _card_of(row)


def _card_of(row: dict[str, Any]) -> Card:
    given = {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
        if name in AuditRow.model_fields
    }
    try:
        audit = AuditRow.model_validate(given)
        return card_of(audit, stands_violated=row["standing"] == Verdict.VIOLATED)
    except ValueError:  # a field's value, or a word that is no verdict
        return _UNREADABLE


def next_steps_table(audits: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each record: day, model, secret, conclusion, who and next step."""
    names = ("day", "model", "secret", "conclusion", "who", "costs", "next_step")
    rows = [
        (*(row[name] for name in names[:3]), card.conclusion, first.role, first.cost, first.text)
        for row, card in cards_of(audits)
        for first in card.steps[:1]
    ]
    schema = pl.Schema({name: pl.Date() if name == "day" else pl.String() for name in names})
    return pl.DataFrame(rows, schema=schema, orient="row")

"""Cards of rows as the warehouse gives them, with their standing."""

import math
from collections.abc import Iterator

import polars as pl

from flows.next_steps.card import Card, card_of
from privcore.lower_bounds import Verdict
from workers.warehouse.schema import AuditRow


def cards_of(audits: pl.DataFrame) -> Iterator[tuple[AuditRow, Card]]:
    """Yield each record with its card.

    Args:
        audits: current records with the column `standing`, as `with_windows` returns them. Columns
            that no record has are passed over; a NaN counts as no figure.
    """
    for row in audits.iter_rows(named=True):
        given = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in row.items()
            if name in AuditRow.model_fields
        }
        audit = AuditRow.model_validate(given)
        yield audit, card_of(audit, stands_violated=row["standing"] == Verdict.VIOLATED)


def next_steps_table(audits: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each record: day, model, secret, conclusion, who and next step."""
    names = ("day", "model", "secret", "conclusion", "who", "costs", "next_step")
    rows = [
        (row.day, row.model, row.secret, card.conclusion, first.role, first.cost, first.text)
        for row, card in cards_of(audits)
        for first in card.steps[:1]
    ]
    schema = pl.Schema({name: pl.Date() if name == "day" else pl.String() for name in names})
    return pl.DataFrame(rows, schema=schema, orient="row")

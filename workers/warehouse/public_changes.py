"""Changes of a model's declaration and settings as the public may know them: no label decides them.

Which nights came to figures depends on labels. So nights are compared whatever they came to.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from workers.warehouse.declaration_changes import COLUMNS, DATASET, LABEL_COLUMN, declaration_change
from workers.warehouse.settings_changes import COLUMNS as OF_SETTINGS
from workers.warehouse.settings_changes import settings_change
from workers.warehouse.store import Warehouse

_COMPARED = ("audit_id", "model", "day", *COLUMNS, DATASET, LABEL_COLUMN, *OF_SETTINGS)


@dataclass(frozen=True, slots=True)
class PublicChange:
    """Change from one night to the next, in words; None where there is none."""

    model: str
    day: dt.date
    declaration: str | None
    settings: str | None


def public_changes(warehouse: Warehouse, audits: pl.DataFrame) -> Iterator[PublicChange]:
    """Yield the changes of these audits against the night before, of labels alone.

    The night before is the model's last one whose labels were read, with figures or without.
    """
    models = audits["model"].unique()
    current = warehouse.current(models=models, columns=_COMPARED)
    asked = set(audits["audit_id"])
    for _, nights in current.filter(pl.col(DATASET).is_not_null()).group_by("model"):
        before = configured = None
        for night in nights.sort("day").iter_rows(named=True):
            if night["audit_id"] in asked:
                declared = declaration_change(before, night)
                changed = settings_change(configured, night)
                if declared is not None or changed is not None:
                    yield PublicChange(night["model"], night["day"], declared, changed)
            before = night
            configured = configured if night["exploratory"] else night

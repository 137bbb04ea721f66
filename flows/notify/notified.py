"""Names that an alert about changed settings goes to: also those taken out of `notify` lately."""

import datetime as dt
import json

import polars as pl

from flows.settings import Settings
from workers.warehouse.store import Warehouse

_LATELY = dt.timedelta(days=7)


def notified_lately(model: str, day: dt.date, settings: Settings) -> tuple[str, ...]:
    """Return a model's names in the settings, and those in its records of the week before a day."""
    warehouse = Warehouse(settings.warehouse)
    kept = warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model") == model, pl.col("day").is_between(day - _LATELY, day))
        .filter(pl.col("notify").is_not_null())
        .sort("day", "revision")
        .select("notify")
    )
    earlier = (name for names in kept["notify"] for name in _names_in(names))
    return tuple(dict.fromkeys((*settings.model_named(model).notify, *earlier)))


def _names_in(text: str) -> list[str]:
    """Return the names that a record keeps; none of a text that no audit writes."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

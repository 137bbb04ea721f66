"""Names that alerts go to which an owner may want unheard: also those taken out of `notify`."""

import datetime as dt
import json
from collections.abc import Collection, Iterator, Sequence

import polars as pl

from flows.settings import Settings
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse

_LATELY = dt.timedelta(days=7)


def notified_lately(model: str, day: dt.date, settings: Settings) -> tuple[str, ...]:
    """Return a model's names in the settings, and those in its records of the week before a day.

    And those of its last night with figures before it, with which settings are compared: nights
    without figures must not outlast the names.
    """
    known = _nights(Warehouse(settings.warehouse), [model]).filter(pl.col("day") <= day)
    figures = known.filter(pl.col("day") < day, pl.col("status") == Status.EVALUATED)["day"]
    heard = known.filter((pl.col("day") >= day - _LATELY) | pl.col("day").eq_missing(figures.max()))
    earlier = (name for names in heard["notify"] for name in _names_in(names))
    return tuple(dict.fromkeys((*settings.model_named(model).notify, *earlier)))


def names_taken_out(rows: Sequence[AuditRow], settings: Settings) -> Iterator[tuple[AuditRow, str]]:
    """Yield audits without figures that name fewer people than the night before, and who is gone.

    Settings are compared between nights with figures. A night without any has an alert all the
    same, which would reach nobody.
    """
    asked = [row for row in rows if row.status is not Status.EVALUATED and row.notify is not None]
    if not asked:
        return
    nights = _nights(Warehouse(settings.warehouse), {row.model for row in asked})
    for row in asked:
        before = nights.filter(pl.col("model") == row.model, pl.col("day") < row.day)[-1:]
        was = {name for names in before["notify"] for name in _names_in(names)}
        gone = sorted(was - set(_names_in(row.notify or "")))
        if gone:
            named = f"notify of {before['day'].item()} named {', '.join(gone)}"
            yield row, f"{named}, and does not now."


def _nights(warehouse: Warehouse, models: Collection[str]) -> pl.DataFrame:
    """Return the records of models that keep names, in their order."""
    return warehouse.collect(
        warehouse.scan("audits")
        .filter(pl.col("model").is_in(list(models)))
        .filter(pl.col("notify").is_not_null())
        .sort("day", "revision")
        .select("model", "day", "status", "notify")
    )


def _names_in(text: str) -> list[str]:
    """Return the names that a record keeps; none of a text that no audit writes."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

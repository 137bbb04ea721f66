"""Days, as folders, columns and statistics of a table spell them."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

Named = tuple[str, dt.date]
"""A column or folder, and the newest day that it names."""


def says_day(text: str, day: dt.date) -> bool:
    """Return whether a folder's or a column's text names the day: 2026-03-02 or 20260302."""
    return text in {day.isoformat(), f"{day:%Y%m%d}"}


def as_day(value: Any) -> dt.date | None:
    """Return the day of a date, a time, or of 2026-03-02 and 20260302; None of all else."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if not isinstance(value, str | int):
        return None
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError:
        return None


def days_among(values: Iterable[tuple[str, Any]]) -> list[Named]:
    """Return the named values that are days, as days."""
    found = ((name, as_day(value)) for name, value in values)
    return [(name, day) for name, day in found if day is not None]


def may_hold(least: Any, greatest: Any, day: dt.date) -> bool:
    """Return whether a file with these statistics may hold the day; if nothing is known, True."""
    if least is None or greatest is None:
        return True
    if isinstance(least, dt.datetime):
        wide = dt.timedelta(days=1)  # whatever the zone
        return bool(least.date() - wide <= day <= greatest.date() + wide)
    if isinstance(least, dt.date):
        return bool(least <= day <= greatest)
    if isinstance(least, str):
        words = (day.isoformat(), f"{day:%Y%m%d}")
        return any(str(least) <= word <= str(greatest) for word in words)
    if isinstance(least, int):
        return bool(least <= int(f"{day:%Y%m%d}") <= greatest)
    return True

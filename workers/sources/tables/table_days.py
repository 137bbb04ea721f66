"""Days, as folders, columns and statistics of a table spell them."""

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterable, Sequence
from typing import Any

Named = tuple[str, dt.date]
"""A column or folder, and the newest day that it names."""
_NUMBERS = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


def as_day(value: Any) -> dt.date | None:
    """Return the day of a date, a time, or of 2026-03-02 and 20260302; None of all else."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    try:
        day = dt.date.fromisoformat(str(value))
    except ValueError:
        return None
    return day if str(value) in {day.isoformat(), f"{day:%Y%m%d}"} else None


def moment_named(word: str, zone: str) -> dt.datetime | None:
    """Return the moment that a folder or partition names, on a zone's clock; None of all else.

    It is a day (2026-03-02, 20260302, 2026-3-2), which begins at midnight, or a time. One without
    an offset is the zone's clock already.
    """
    if parts := _NUMBERS.fullmatch(word):
        word = f"{parts[1]}-{parts[2]:0>2}-{parts[3]:0>2}"
    try:
        time = dt.datetime.fromisoformat(word)
    except ValueError:
        return None
    if time.tzinfo is not None:
        time = time.astimezone(zoneinfo.ZoneInfo(zone))
    return time.replace(tzinfo=None)


def names_day(word: str, day: dt.date, zone: str) -> bool:
    """Return whether a folder or partition names the day, or a time of it in the zone."""
    moment = moment_named(word, zone)
    return moment is not None and moment.date() == day


def words_of_day(parts: Sequence[tuple[str, str]], column: str) -> list[str]:
    """Return what folders say of the day; year=, month= and day= say it together."""
    known = dict(parts)
    if column == "day" and known.keys() >= {"year", "month"}:
        return [f"{known['year']}-{known['month']}-{word}" for name, word in parts if name == "day"]
    return [word for name, word in parts if name == column]


def days_named(parts: Sequence[tuple[str, str]]) -> list[Named]:
    """Return the days that folders or partitions name; a time with an offset as of UTC."""
    moments = (
        (name, moment_named(word, "UTC"))
        for name in dict(parts)
        for word in words_of_day(parts, name)
    )
    return [(name, moment.date()) for name, moment in moments if moment is not None]


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

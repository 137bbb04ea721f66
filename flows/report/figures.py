"""Counts, shares, days and lists as text."""

import datetime as dt
from collections.abc import Sequence

from privcore.rounding import ABSENT


def count(value: int | None) -> str:
    """Return a whole number with its thousands apart; `ABSENT` for None."""
    return ABSENT if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(share: float) -> str:
    """Return a share as a percentage, without noise from binary fractions: 0.95 -> "95%"."""
    return f"{round(share * 100.0, 6):g}%"


def long_day(day: dt.date) -> str:
    """Return a day for a sentence: "14 January 2013"."""
    return f"{day.day} {day:%B %Y}"


def short_days(days: Sequence[dt.date]) -> str:
    """Return days for a list: "14, 15 Jan and 2 Feb"; the caller's order is kept."""
    parts: list[str] = []
    for position, day in enumerate(days):
        last_of_month = position + 1 == len(days) or days[position + 1].month != day.month
        parts.append(f"{day.day} {day:%b}" if last_of_month else str(day.day))
    return enumeration(parts)


def enumeration(parts: Sequence[str]) -> str:
    """Return parts joined as in a sentence: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"

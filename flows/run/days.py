"""Validation of audit days: records are never deleted, so an impossible day is refused first."""

import datetime as dt
import zoneinfo
from collections.abc import Sequence

from flows.settings import Settings
from privcore.exceptions import InvalidInputError, is_failure
from workers.lake.layout import Lake, checkpoint_folder

EARLIEST = dt.date(1970, 1, 1)
"""Proxies, windows and plots reach back from a day: so far nothing can overflow."""


def check_days(settings: Settings, models: Sequence[str], first: dt.date, last: dt.date) -> None:
    """Refuse days that were asked for by mistake, before anything is committed.

    Raises:
        InvalidInputError: a day is in the future, before 1970, or before the year of the first
            checkpoint that any of the models has.
    """
    zone = zoneinfo.ZoneInfo(settings.night.time_zone)
    today = dt.datetime.now(zone).date()
    if last > today:
        raise InvalidInputError(
            "day", str(last), f"it is in the future: today is {today} in {zone.key}"
        )
    if first < EARLIEST:
        raise InvalidInputError("day", str(first), f"no day before {EARLIEST} is audited")
    earliest = None
    lake = Lake(settings.lake)
    for model in models:
        try:
            if lake.exists(checkpoint_folder(model, first)):
                return  # the listing of all days grows with each
            known = lake.first_day(model)
        except BaseException as error:
            if not is_failure(error):
                raise
            return  # unknown: that model's audit says what is wrong with its folder
        if known is not None and known.year <= first.year:
            return
        earliest = min((day for day in (earliest, known) if day is not None), default=None)
    if earliest is not None:
        raise InvalidInputError(
            "day", str(first), f"the first checkpoint of {', '.join(models[:3])} is of {earliest}"
        )

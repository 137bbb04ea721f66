"""Validation of audit days: records are never deleted, so an impossible day is refused first."""

import datetime as dt
import zoneinfo
from collections.abc import Sequence

from prefect.runtime import flow_run

from flows.run.night_plan import external_inputs_of
from flows.settings import Settings, load_settings
from privcore.exceptions import AuditError, InvalidInputError, is_failure
from workers.lake.layout import Lake, checkpoint_folder
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.scores.supplied import SuppliedScores
from workers.sources.tables.table_look import newest_day

EARLIEST = dt.date(1970, 1, 1)
"""Proxies, windows and plots reach back from a day: so far nothing can overflow."""


def audited_day() -> dt.date | str:
    """Return the day that this run of Prefect's audits, for its name."""
    given = flow_run.parameters
    try:
        began = flow_run.scheduled_start_time or dt.datetime.now(dt.UTC)
        return given.get("day") or load_settings(given.get("settings")).yesterday(began)
    except AuditError:  # the run itself says what is wrong with the settings
        return "of unknown day"


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


def check_inputs(settings: Settings, models: Sequence[str], last: dt.date) -> None:
    """Refuse a day after the newest inputs of all these models: its record would be their newest.

    The expected night is taken without inputs, which may be late: yesterday, or one whose deadline
    is to come. So is what cannot be looked up: its audit says why.

    Raises:
        InvalidInputError: no model has a checkpoint, or rows of its table, of that day or later.
    """
    now, lake, newest = dt.datetime.now(dt.UTC), Lake(settings.lake), dt.date.min
    if last >= settings.yesterday(now):
        return
    for model in models:
        try:
            found = _newest_inputs(settings, model, lake)
        except BaseException as error:
            if not is_failure(error):
                raise
            return
        if found is None or found >= last or now < settings.deadline_of(model, last):
            return
        newest = max(newest, found)
    raise InvalidInputError(
        "day",
        str(last),
        f"the newest inputs of {', '.join(models[:3])} are of {newest}: give a day up to then",
    )


def _newest_inputs(settings: Settings, name: str, lake: Lake) -> dt.date | None:
    """Return the newest day of a model's table, or of its checkpoints; None where none is known.

    Raises:
        AuditError: the inputs cannot be looked up.
    """
    inputs = external_inputs_of(settings.model_named(name))
    if isinstance(inputs, SuppliedScores):
        return None if inputs.tables.query else newest_day(inputs.tables)
    if isinstance(inputs, InPlace):
        return newest_day(inputs.labels)
    folders = lake.day_folders(f"models/{name}")
    return max((one.day for one in folders if one.day is not None), default=None)

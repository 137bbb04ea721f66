"""A table of days, by the settings: where it lies, and which of its rows training saw."""

import datetime as dt
import operator
import zoneinfo
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from workers.lake.manifest import LabelState, Name
from workers.sources.tables.holdout import HoldoutRule, parse_holdout
from workers.strict_model import StrictModel, known_zone

WHERE = {"table", "catalog", "version"}
"""Fields that say where a table lies, and nothing of what it means."""


def _rule(text: str) -> str:
    parse_holdout(text)
    return text


class TablePlace(StrictModel):
    """One table: Parquet or CSV files, or a Delta table, or an Iceberg table of a catalogue."""

    table: Name
    """Path or URI of a Delta table, or of a folder of Parquet (or CSV) files with one folder per
    day (day=2026-03-02, its times, or year=2026/month=03/day=02); with catalog, the name of an
    Iceberg table."""
    catalog: Name | None = None
    """Iceberg catalogue that names the table, as pyiceberg's own settings know it (.pyiceberg.yaml,
    or PYICEBERG_CATALOG__<NAME>__URI)."""
    version: int | None = None
    """Version (Delta) or snapshot (Iceberg) to read; the newest if left out."""
    day: Name | None = None
    """Column, or folder, of the day; the first table's if left out."""


class DayTable(TablePlace):
    """A table of records, with what says of each its day, its label's time and its arm."""

    KEY: ClassVar[str]
    """Place of the table in a model's settings, for sentences."""

    day: Name | None = "day"
    """Column, or folder, that says which day it is. None: each row is the day's."""
    time_zone: Annotated[str, AfterValidator(known_zone)] = "UTC"
    """Zone in which a time falls on a day, in rows, folders and partitions; one without an offset
    is its clock."""
    label_state: LabelState = None
    """What the label's column holds: secret, the labels from before any mechanism; or {
    privatised_by = { name, parameters } }; read as secret where nobody says."""
    split: Name = "split"
    """Column that says `train` or `holdout`; rows of other words are left out."""
    holdout: Annotated[str, AfterValidator(_rule)] | None = None
    """Which rows were held out of training, instead of split: column = 'value', or bucket(column,
    5) = 0 by Iceberg's hash. All other rows were trained on."""
    known_at: Name | None = None
    """Column of the time at which the label was known; a later one is left out."""
    cutoff_hours: float = Field(default=0.0, ge=0.0, le=24.0 * 366.0)
    """How long after the end of the day training read its labels."""
    unit: Name | None = None
    """Column that says whose record it is: the plan's privacy_unit."""
    other_labels: tuple[Name, ...] = Field(default=(), exclude_if=operator.not_)
    """Columns of other labels of the rows that training read, too: the plan's other_labels."""

    @property
    def holdout_rule(self) -> HoldoutRule:
        """Rule that reads a row's arm."""
        return HoldoutRule(self.split) if self.holdout is None else parse_holdout(self.holdout)

    def cutoff(self, day: dt.date) -> dt.datetime:
        """Return when training read the labels of a day."""
        zone = zoneinfo.ZoneInfo(self.time_zone)
        midnight = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=zone)
        return midnight + dt.timedelta(hours=self.cutoff_hours)

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the table lies."""
        return self.model_dump(mode="json", exclude=WHERE)

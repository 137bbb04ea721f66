"""What the columns of score tables mean: `[models.scores]` of the settings, and of a record."""

import datetime as dt
import zoneinfo
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from workers.lake.manifest import DeclaredMechanism, Label, LabelColumn, Name, Privacy
from workers.sources.holdout import HoldoutRule, parse_holdout


def _zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone: write a name like Europe/Amsterdam") from None
    return name


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TablePlace(_Strict):
    """One table: a folder of Parquet files or a Delta table, or an Iceberg table of a catalogue."""

    table: Name = Field(
        description="Path or URI of a Delta table, or of a folder of Parquet files with one folder "
        "per day (day=2026-03-02); with catalog, the name of an Iceberg table."
    )
    catalog: Name | None = Field(
        default=None,
        description="Iceberg catalogue that names the table, as pyiceberg's own settings know it "
        "(.pyiceberg.yaml, or PYICEBERG_CATALOG__<NAME>__URI).",
    )
    version: int | None = Field(
        default=None,
        description="Version (Delta) or snapshot (Iceberg) to read; the newest if left out.",
    )
    day: Name | None = Field(
        default=None, description="Column, or folder, of the day; the first table's if left out."
    )
    record: Name | None = Field(
        default=None,
        description="Column of the record's name, by which tables are joined and records that come "
        "twice are found; the first table's if left out.",
    )


class OtherTable(TablePlace):
    """A table of its own for the label, the target or the proxy, joined by record."""

    column: Name | tuple[Name, ...] = Field(
        description="The label's column; or the probabilities', as in the first table."
    )


class DeclaredPrivacy(_Strict):
    """`[models.privacy]`: what a manifest would declare."""

    definition: Literal["label_dp", "dp"] = "label_dp"
    neighbors: Literal["replace", "add_remove"] = "replace"
    unit: Name = "record"
    epsilon: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)] = 0.0
    mechanism: DeclaredMechanism | None = None
    declared_by: Name = "the settings"
    declared_at: dt.datetime | None = None

    def as_privacy(self) -> Privacy:
        """Return the declaration as a manifest has it."""
        return Privacy.model_validate(self.model_dump())


Scores = Name | tuple[Name, ...] | OtherTable


class ScoreTables(TablePlace):
    """Where the probabilities of target and proxy, the labels and the split stand."""

    day: Name = Field(default="day", description="Column, or folder, that says which day it is.")
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="Zone in which a time falls on a day."
    )
    label: Name | OtherTable = Field(description="Column of the label.")
    classes: tuple[Label, ...] = Field(
        default=(0, 1),
        min_length=2,
        description="Values of the label, in the order of the probabilities.",
    )
    target: Scores = Field(
        description="Column of the audited model's probability of the second class; or one column "
        "per class; or a column of lists."
    )
    proxy: Scores = Field(
        description="The same of a model that never saw the day: what was served that day."
    )
    scale: Literal["probability", "log_odds"] = Field(
        default="probability",
        description="What the columns hold; log-odds are scores before the logistic or softmax.",
    )
    split: Name = Field(
        default="split",
        description="Column that says `train` or `holdout`; rows of other words are left out.",
    )
    holdout: str | None = Field(
        default=None,
        description="Which rows were held out of training, instead of split: column = 'value', or "
        "bucket(column, 5) = 0 by Iceberg's hash. All other rows were trained on.",
    )
    known_at: Name | None = Field(
        default=None,
        description="Column of the time at which the label was known; a later one is left out.",
    )
    cutoff_hours: float = Field(
        default=0.0,
        ge=0.0,
        le=24.0 * 366.0,
        description="How long after the end of the day training read its labels.",
    )
    unit: Name | None = Field(
        default=None, description="Column that says whose record it is: the plan's privacy_unit."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.holdout is not None:
            parse_holdout(self.holdout)
        known = [str(value) for value in self.classes]
        if len(set(known)) < len(known):
            raise ValueError(f"classes {known} names one twice: write each once")
        for role in ("target", "proxy"):
            columns = self.columns_of(role)
            if len(columns) not in {1, len(known)}:
                raise ValueError(
                    f"{role} has {len(columns)} columns for {len(known)} classes: write one per "
                    "class, or one column"
                )
        if self.target == self.proxy:
            raise ValueError(
                "proxy is the target: give the probabilities of a model that never saw the day, "
                "like those that were served that day"
            )
        if self.others and self.record is None:
            raise ValueError("tables are joined by record: give record, the column of its name")
        return self

    @property
    def label_column(self) -> LabelColumn:
        """The label's column and classes."""
        return LabelColumn(column=self.columns_of("label")[0], classes=self.classes)

    @property
    def others(self) -> dict[str, OtherTable]:
        """The tables beside the first, by what they hold."""
        roles = {"label": self.label, "target": self.target, "proxy": self.proxy}
        return {role: part for role, part in roles.items() if isinstance(part, OtherTable)}

    @property
    def holdout_rule(self) -> HoldoutRule:
        """How a row's arm is read."""
        return HoldoutRule(self.split) if self.holdout is None else parse_holdout(self.holdout)

    def columns_of(self, role: str) -> tuple[str, ...]:
        """Return the columns of `label`, `target` or `proxy`."""
        part = getattr(self, role)
        column = part.column if isinstance(part, OtherTable) else part
        return (column,) if isinstance(column, str) else tuple(column)

    def cutoff(self, day: dt.date) -> dt.datetime:
        """Return when training read the labels of a day."""
        zone = zoneinfo.ZoneInfo(self.time_zone)
        midnight = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=zone)
        return midnight + dt.timedelta(hours=self.cutoff_hours)

    def pinned(self, versions: dict[str, int | None]) -> "ScoreTables":
        """Return the same tables at these versions, by role; the first table's role is empty."""
        changes: dict[str, Any] = {"version": versions[""]}
        for role, other in self.others.items():
            changes[role] = other.model_copy(update={"version": versions[role]})
        return self.model_copy(update=changes)

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the tables lie."""
        place = {"table", "catalog", "version"}
        inner = dict.fromkeys(self.others, place)
        return self.model_dump(mode="json", exclude={**dict.fromkeys(place, True), **inner})

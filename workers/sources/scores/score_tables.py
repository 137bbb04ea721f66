"""Meanings of the columns of score tables: `[models.scores]` of the settings, and of a record."""

import datetime as dt
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from privcore.attacks import ABOVE
from workers.lake.manifest import (
    LARGEST_EPSILON,
    DeclaredMechanism,
    Label,
    LabelColumn,
    Name,
    Privacy,
    check_simulated,
    named_twice,
)
from workers.sources.tables.day_tables import WHERE, DayTable, StrictSettings, TablePlace


class OtherTable(TablePlace):
    """A table of its own for the label, the target or the proxy, joined by record."""

    record: Name | None = Field(
        default=None,
        description="Column of the record's name, by which tables are joined; the first table's if "
        "left out.",
    )
    column: Name | tuple[Name, ...] = Field(
        description="The label's column; or the probabilities', as in the first table."
    )


class DeclaredPrivacy(StrictSettings):
    """`[models.privacy]`: what a manifest would declare."""

    definition: Literal["label_dp", "dp"] = "label_dp"
    neighbors: Literal["replace", "add_remove", "simulate"] = "replace"
    unit: Name = "record"
    epsilon: Annotated[float, Field(ge=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)] = 0.0
    mechanism: DeclaredMechanism | None = None
    declared_by: Name = "the settings"
    declared_at: dt.datetime | None = None

    @model_validator(mode="after")
    def _simulates_labels_alone(self) -> Self:
        check_simulated(self.definition, self.neighbors)
        return self

    def as_privacy(self) -> Privacy:
        """Return the declaration as a manifest has it."""
        return Privacy.model_validate(self.model_dump())


Scores = Name | tuple[Name, ...] | OtherTable


class ScoreTables(DayTable):
    """Places of the probabilities of target and proxy, the labels and the split."""

    KEY: ClassVar[str] = "scores"

    day: Name = Field(default="day", description="Column, or folder, that says which day it is.")
    record: Name | None = Field(
        default=None,
        description="Column of the record's name, by which tables are joined and records that come "
        "twice are found.",
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
    scale: Literal["probability", "log_odds", "number"] = Field(
        default="probability",
        description="What the columns hold; log-odds are scores before the logistic or softmax. "
        "number: the label is a number, and the columns are predictions of it; told of it is "
        "whether it lies above the proxy's.",
    )

    context: tuple[Name, ...] = Field(
        default=(),
        description="Columns of features that are known before the label. From them a student "
        "learns what the target would say of a record that it had not seen. Older models' scores "
        "serve as well, and those of shadow models. Never the label, what follows from it, the "
        "split or the target's own scores.",
    )

    @model_validator(mode="after")
    def _context_tells_nothing(self) -> Self:
        told = {*self.columns_of("label"), *self.columns_of("target"), self.holdout_rule.column}
        for name in self.context:
            if name in told:
                raise ValueError(
                    f"context names {name!r}, which is the label, the split or the target's "
                    "probability: name features"
                )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = [str(value) for value in self.classes]
        if named_twice(self.classes):
            raise ValueError(f"classes {known} names one twice: write each once")
        if self.scale == "number" and self.classes != type(self).model_fields["classes"].default:
            raise ValueError(f"a number has no classes: leave classes {known} out, or scale")
        for role in ("target", "proxy"):
            columns = self.columns_of(role)
            if self.scale == "number" and len(columns) > 1:
                raise ValueError(f"{role} has {len(columns)} columns: a number has one prediction")
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
        classes = ABOVE if self.scale == "number" else self.classes
        return LabelColumn(column=self.columns_of("label")[0], classes=classes)

    @property
    def others(self) -> dict[str, OtherTable]:
        """The tables beside the first, by what they hold."""
        roles = {"label": self.label, "target": self.target, "proxy": self.proxy}
        return {role: part for role, part in roles.items() if isinstance(part, OtherTable)}

    def columns_of(self, role: str) -> tuple[str, ...]:
        """Return the columns of `label`, `target` or `proxy`."""
        part = getattr(self, role)
        column = part.column if isinstance(part, OtherTable) else part
        return (column,) if isinstance(column, str) else tuple(column)

    def pinned(self, versions: dict[str, int | None]) -> "ScoreTables":
        """Return the same tables at these versions, by role; the first table's role is empty."""
        changes: dict[str, Any] = {"version": versions[""]}
        for role, other in self.others.items():
            changes[role] = other.model_copy(update={"version": versions[role]})
        return self.model_copy(update=changes)

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the tables lie."""
        # Unsaid it is left out, as before there was the key: the same audits keep their ids.
        left_out: dict[str, Any] = dict.fromkeys(WHERE, True) | dict.fromkeys(self.others, WHERE)
        if self.label_state is None:
            left_out |= {"label_state": True}
        if not self.context:
            left_out |= {"context": True}
        return self.model_dump(mode="json", exclude=left_out)

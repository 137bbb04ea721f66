"""Meanings of the columns of score tables: `[models.scores]` of the settings, and of a record."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from workers.databases import NAME
from workers.lake.manifest import (
    LARGEST_EPSILON,
    POLICY,
    DeclaredMechanism,
    Delta,
    Label,
    LabelColumn,
    Moment,
    Name,
    Privacy,
    check_simulated,
    named_twice,
)
from workers.sources.tables.day_tables import WHERE, DayTable, TablePlace
from workers.strict_model import StrictModel


class OtherTable(TablePlace):
    """A table of its own for the label, the target or the proxy, joined by record."""

    record: Name | None = None
    """Column of the record's name, by which tables are joined; the first table's if left out."""
    column: Name | tuple[Name, ...]
    """The label's column; or the probabilities', as in the first table."""


class EarlierTable(OtherTable):
    """A table that holds an earlier model's probabilities of the day's records."""

    days_before: int = Field(default=0, ge=0, le=366)
    """How many days before the audited one its rows are of."""


class DeclaredPrivacy(StrictModel):
    """`[models.privacy]`: what a manifest would declare."""

    definition: Literal["label_dp", "dp"] = "label_dp"
    neighbors: Literal["replace", "add_remove", "simulate"] = "replace"
    unit: Name = "record"
    epsilon: Annotated[float, Field(ge=0.0, le=LARGEST_EPSILON, allow_inf_nan=False)]
    delta: Delta = 0.0
    mechanism: DeclaredMechanism | None = None
    declared_by: Name = "the settings"
    declared_at: Moment | None = None

    @model_validator(mode="after")
    def _can_be_said(self) -> Self:
        check_simulated(self.definition, self.neighbors)
        if self.declared_by == POLICY:
            raise ValueError(f"declared_by is {POLICY}, which is nobody: write who declares")
        return self

    def as_privacy(self) -> Privacy:
        """Return the declaration as a manifest has it."""
        return Privacy.model_validate(self.model_dump())


Scores = Name | tuple[Name, ...] | OtherTable
Earlier = Name | tuple[Name, ...] | EarlierTable


class ScoreTables(DayTable):
    """Places of the probabilities of target and proxy, the labels and the split."""

    KEY: ClassVar[str] = "scores"

    day: Name = "day"
    """Column, or folder, that says which day it is."""
    record: Name | None = None
    """Column of the record's name, by which tables are joined and records that come twice are
    found. Without context, nights recognise a holdout by these names."""
    label: Name | OtherTable
    """Column of the label."""
    classes: tuple[Label, ...] = Field(default=(0, 1), min_length=2)
    """Values of the label, in the order of the probabilities."""
    target: Scores
    """Column of the audited model's probability of the second class; or one column per class; or a
    column of lists."""
    proxy: Scores
    """The same of a model that never saw the day: what was served that day."""
    scale: Literal["probability", "log_odds"] = "probability"
    """What the columns hold; log-odds are scores before the logistic or softmax."""

    context: tuple[Name, ...] = ()
    """Columns of features that are known before the label. From them a student learns what the
    target would say of a record that it had not seen. Older models' scores serve as well, and those
    of shadow models. Never the label, what follows from it, the split or the target's own
    scores."""

    earlier: tuple[Earlier, ...] = ()
    """The same as proxy, of models of the days before the proxy's, one entry for each; or a table
    of theirs, joined by record, with days_before if its rows are of another day. Half of the stake
    is then bet against the mean of all these models. For tables without context."""

    query: str | None = Field(default=None, min_length=1)
    """A query of a database that returns the day's rows, instead of a table's files; its parameter
    is the day, a date: where day = $1 (PostgreSQL). table is then a name for them, and record is
    needed."""
    database: Annotated[str, Field(pattern=NAME)] | None = None
    """Name of the query's database. Its address, a secret, stands in the environment alone:
    PRIVAUDIT_DATABASE_ and this name in capitals."""

    @model_validator(mode="after")
    def _query_fits(self) -> Self:
        if (self.query is None) != (self.database is None):
            raise ValueError("query and database go together: give both, or none")
        if self.query is None:
            return self
        if "$1" not in self.query:
            raise ValueError("query has no parameter for the day: write where day = $1 in it")
        if self.query.rstrip().endswith(";"):
            raise ValueError("query ends with a semicolon: leave it out, as one query is asked")
        if self.record is None:
            raise ValueError(
                "the rows of a query have no fixed order: set record, the column of their names"
            )
        if self.others or self.catalog is not None or self.version is not None:
            raise ValueError(
                "query stands for all tables: join them in it, and leave catalog, version and the "
                "tables of label, target, proxy and earlier out"
            )
        return self

    @model_validator(mode="after")
    def _earlier_models_fit(self) -> Self:
        if self.earlier and self.context:
            raise ValueError(
                "earlier beside context: a student of the features needs no earlier models; leave "
                "one of both out"
            )
        if self.earlier and {self.target, self.proxy} & set(self.earlier):
            raise ValueError("earlier names the target or the proxy: name models before the proxy")
        return self

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
        for role in ("target", "proxy", *self.earlier_roles):
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
        return {role: part for role, part in self._parts.items() if isinstance(part, OtherTable)}

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the tables: `label`, `target`, `proxy`, and each of the earlier models."""
        return tuple(self._parts)

    @property
    def earlier_roles(self) -> tuple[str, ...]:
        """The earlier models' roles, in the order of the settings."""
        return tuple(f"earlier {number + 1}" for number in range(len(self.earlier)))

    @property
    def _parts(self) -> dict[str, Scores | Earlier]:
        named = {"label": self.label, "target": self.target, "proxy": self.proxy}
        return named | dict(zip(self.earlier_roles, self.earlier, strict=True))

    def columns_of(self, role: str) -> tuple[str, ...]:
        """Return the columns of one of the `roles`."""
        part = self._parts[role]
        column = part.column if isinstance(part, OtherTable) else part
        return (column,) if isinstance(column, str) else tuple(column)

    def pinned(self, versions: dict[str, int | None]) -> "ScoreTables":
        """Return the same tables at these versions, by role; the first table's role is empty."""
        others = self.others.items()
        pinned = {
            role: other.model_copy(update={"version": versions[role]}) for role, other in others
        }
        return self.with_parts(pinned).model_copy(update={"version": versions[""]})

    def with_parts(self, parts: Mapping[str, Scores | Earlier]) -> "ScoreTables":
        """Return the same tables with other parts for some roles."""
        earlier = tuple(
            parts.get(role, part)
            for role, part in zip(self.earlier_roles, self.earlier, strict=True)
        )
        named = {role: part for role, part in parts.items() if role not in self.earlier_roles}
        return self.model_copy(update={**named, "earlier": earlier})

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the tables lie."""
        # Unsaid it is left out, as before there was the key: the same audits keep their ids.
        left_out: dict[str, Any] = dict.fromkeys({*WHERE, "query", "database"}, True)
        left_out |= dict.fromkeys(set(self.others) & set(type(self).model_fields), WHERE)
        tables = (n for n, part in enumerate(self.earlier) if isinstance(part, OtherTable))
        left_out["earlier"] = dict.fromkeys(tables, WHERE) if self.earlier else True
        if self.label_state is None:
            left_out |= {"label_state": True}
        if not self.context:
            left_out |= {"context": True}
        return self.model_dump(mode="json", exclude=left_out)

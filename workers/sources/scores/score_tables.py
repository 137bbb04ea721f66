"""Columns of score tables, and what settings (`[models.scores]`) and records say of them."""

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars._typing import PolarsDataType
from pydantic import Field, model_validator
from scipy.special import expit, softmax

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch
from workers.lake.manifest import (
    POLICY,
    DeclaredMechanism,
    Delta,
    Label,
    LabelColumn,
    Moment,
    Name,
    Privacy,
    named_twice,
)
from workers.sources.tables.day_tables import WHERE, DayTable, Kind, TablePlace


class OtherTable(TablePlace):
    """A table of its own for the label, the target or the proxy, joined by record."""

    record: Name | None = None
    """Column of the record's name, by which tables are joined; the first table's if left out."""
    column: Name | tuple[Name, ...]
    """The label's column; or the probabilities', as in the first table."""


class DeclaredPrivacy(Privacy):
    """`[models.privacy]`: what a manifest would declare."""

    definition: Literal["label_dp", "dp"] = "label_dp"
    neighbors: Literal["replace", "add_remove", "simulate"] = "replace"
    unit: Name = "record"
    delta: Delta = 0.0
    mechanism: DeclaredMechanism | None = None
    declared_by: Name = "the settings"
    declared_at: Moment | None = None

    @model_validator(mode="after")
    def _of_somebody(self) -> Self:
        if self.declared_by == POLICY:
            raise ValueError(f"declared_by is {POLICY}, which is nobody: write who declares")
        return self

    def as_privacy(self) -> Privacy:
        """Return the declaration as a manifest has it."""
        return Privacy.model_validate(self.model_dump())


Scores = Name | tuple[Name, ...] | OtherTable


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

    query: str | None = Field(default=None, min_length=1)
    """A query of a database that returns the day's rows, instead of a table's files; its parameter
    is the day, a date: where day = $1 (PostgreSQL). table is then a name for them, and record is
    needed."""
    database: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")] | None = None
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
                "tables of label, target and proxy out"
            )
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
        return {role: part for role, part in self._parts.items() if isinstance(part, OtherTable)}

    @property
    def _parts(self) -> dict[str, Scores]:
        return {"label": self.label, "target": self.target, "proxy": self.proxy}

    def columns_of(self, role: str) -> tuple[str, ...]:
        """Return the columns of the `label`, the `target` or the `proxy`."""
        part = self._parts[role]
        column = part.column if isinstance(part, OtherTable) else part
        return (column,) if isinstance(column, str) else tuple(column)

    def keys_of(self, role: str) -> tuple[str, str]:
        """Return the columns of the record and of the day in a table; the first's role is empty."""
        other = self.others.get(role)
        record, day = (None, None) if other is None else (other.record, other.day)
        return record or str(self.record), day or self.day

    def read_of(self, role: str, also: Collection[str] = ()) -> dict[str, Kind]:
        """Return the columns that are read of a table, and what each holds (`tables.csv_text`).

        `also` are others of the first table, whose role is empty.
        """
        roles, kinds = [role], dict[str, Kind]()
        if not role:
            rule, roles = self.holdout_rule, [one for one in self._parts if one not in self.others]
            kinds[rule.column] = "text" if rule.value is None else "flag"
            kinds |= {name: "text" for name in also if name != rule.column}
            kinds |= dict.fromkeys(self.context, "feature")
        for each in roles:
            kind: Kind = "flag" if each == "label" else "number"
            kinds |= dict.fromkeys(self.columns_of(each), kind)
        if self.known_at is not None and "label" in roles:
            kinds[self.known_at] = "time"
        return kinds

    def pinned(self, versions: dict[str, int | None]) -> "ScoreTables":
        """Return the same tables at these versions, by role; the first table's role is empty."""
        others = self.others.items()
        pinned = {
            role: other.model_copy(update={"version": versions[role]}) for role, other in others
        }
        return self.model_copy(update={**pinned, "version": versions[""]})

    def meaning(self) -> dict[str, Any]:
        """Return all that changes a number, and nothing of where the tables lie."""
        left_out: dict[str, Any] = dict.fromkeys({*WHERE, "query", "database"}, True)
        return self.model_dump(mode="json", exclude=left_out | dict.fromkeys(self.others, WHERE))


_ROUNDED = 1e-6
_ADD_UP = 0.02
"""Amount by which a record's probabilities may miss one: they were rounded, or kept in 16 bits."""


_TO_COMPARE = 100
"""Records that two models agree on by no accident."""
_SAME = 1e-6
"""Models whose probabilities differ by no more are one model."""
_DIGITS = (4, 3, 2)
"""To which probabilities are rounded."""
_FIRST = 1_000
_HALF = 2.0**-11
"""The coarsest step of 16 bits, below one."""


def read_probabilities(
    batch: Batch,
    columns: tuple[str, ...],
    *,
    role: str,
    classes: int,
    scale: str,
    used: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return what columns hold as probabilities, shape (records, classes), whatever their form.

    Rows that are not `used`, and rows without a value, have equal probabilities of all classes.
    """
    values = _values(batch, columns, role, classes)
    if values.shape[1] not in {classes, 1} or (values.shape[1] == 1 and classes > 2):
        raise _no_probability(
            f"scores.{role} names one column of numbers for {classes} classes: name one column "
            "per class, or a column of lists."
        )
    where = f"{batch.path} holds in {', '.join(columns)}"
    used = np.asarray(used & ~_any_of(np.isnan(values)))
    if not np.isfinite(values[used]).all():
        raise _no_probability(f"{where} an infinite value: write finite probabilities.")
    if scale == "log_odds":
        odds = expit(values) if values.shape[1] == 1 else softmax(values, axis=1)
        values = np.asarray(odds, dtype=np.float64)
    elif used.any():
        _check_probabilities(values[used], where)
        values = np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64)
    if values.shape[1] == 1:
        second = np.where(used, values[:, 0], 0.5)
        return np.column_stack([1.0 - second, second])
    values = np.where(used[:, None], values, 1.0 / classes)
    return np.ascontiguousarray(values / values.sum(axis=1, keepdims=True))


def read_numbers(batch: Batch, column: str, *, said: str) -> NDArray[np.float64]:
    """Return a column of numbers, shape (records,), NaN where there is none or an infinite one."""
    found = batch.column(column)
    if not _numeric(found.dtype):
        raise _no_probability(
            f"{batch.path} stores {column!r} as {found.dtype}: {said} names a column of numbers."
        )
    values = _floats(found)
    return np.where(np.isfinite(values), values, np.nan)


def clearly_apart(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> bool:
    """Return whether one of the first records differs by more than `same_model` forgives."""
    apart = np.abs(target[:_FIRST] - proxy[:_FIRST])
    return bool((apart > 0.5 * 10.0 ** -min(_DIGITS) + _SAME).any())


def same_model(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> bool:
    """Return whether two columns of probabilities are one model's, one of them perhaps rounded.

    They are where they differ by no more than 1e-6 in any of at least 100 records. Where the
    proxy's are rounded to r, they are if the target's, rounded so, are the proxy's in all of at
    least 10^7 r records: of another model, one that moved by 1e-6 or more, none of these would
    have crossed a border of rounding with a chance of about e^-10.
    """
    records = len(target)
    if records < _TO_COMPARE:
        return False
    apart = float(np.abs(target - proxy).max())
    if apart <= _SAME:
        return True
    for digits in _DIGITS:
        step = 10.0**-digits
        if apart <= step / 2.0 + _SAME and records * _SAME >= 10.0 * step:
            rounded = np.abs(np.round(proxy, digits) - proxy) <= _SAME
            if rounded.all():
                return True
    # Of 16 bits. The first class of two was not written, it is what the second left.
    one, other = target[:, 1:].astype(np.float16), proxy[:, 1:].astype(np.float16)
    return records * _SAME >= 10.0 * _HALF and bool((one == other).all())


def lacking(
    batch: Batch, columns: tuple[str, ...], *, role: str, classes: int
) -> NDArray[np.bool_]:
    """Return whether a value of some column, or of a list in it, is missing or NaN, row by row."""
    return _any_of(np.isnan(_values(batch, columns, role, classes)))


def _values(batch: Batch, columns: tuple[str, ...], role: str, classes: int) -> NDArray[np.float64]:
    """Return what columns hold, NaN where there is none; shape (rows, values of a record)."""
    parts = [_numbers(batch, name, classes, role) for name in columns]
    return np.concatenate(parts, axis=1)


def _numbers(batch: Batch, name: str, classes: int, role: str) -> NDArray[np.float64]:
    """Return a column as shape (rows, 1), or a column of lists as shape (rows, classes)."""
    column = batch.column(name)
    kind = column.dtype
    if not _numeric(kind.inner if isinstance(kind, pl.List | pl.Array) else kind):
        raise _no_probability(
            f"{batch.path} stores {name!r} as {kind}: scores.{role} names columns of "
            "probabilities, which are numbers."
        )
    if not isinstance(kind, pl.List | pl.Array):
        return _floats(column).reshape(-1, 1)
    whole = column.cast(pl.List(pl.Float64))
    if (whole.list.len() != classes).any():
        raise _no_probability(
            f"{batch.path} holds in {name!r} a list that has not {classes} values, as many as "
            "there are classes: correct scores.classes, or the lists."
        )
    if whole.null_count():
        empty = pl.Series([[float("nan")] * classes], dtype=whole.dtype)
        whole = pl.select(pl.when(whole.is_null()).then(empty).otherwise(whole)).to_series()
    return _floats(whole.explode()).reshape(-1, classes)


def _numeric(kind: PolarsDataType) -> bool:
    return kind.is_numeric() or kind.is_decimal()


def _any_of(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether any column holds, row by row; of one column it is no sum over an axis."""
    return values[:, 0] if values.shape[1] == 1 else np.asarray(values.any(axis=1))


def _floats(column: pl.Series) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none."""
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _check_probabilities(values: NDArray[np.float64], where: str) -> None:
    """Refuse values that are no probabilities, with a guess at what they are."""
    least, greatest = float(values.min()), float(values.max())
    if least < -_ROUNDED or greatest > 1.0 + _ROUNDED:
        percent = least >= 0.0 and 2.0 < greatest <= 100.0
        advice = (
            "if they are percentages, divide by 100"
            if percent
            else 'if they are log-odds, set scores.scale = "log_odds"'
        )
        raise _no_probability(
            f"{where} values from {least:g} to {greatest:g}, which are no probabilities: {advice}."
        )
    if values.shape[1] > 1:
        sums = values @ np.ones(values.shape[1])
        # Rounded to two digits, or kept in 16 bits, every class may miss by so much.
        allowed = max(_ADD_UP, 0.006 * values.shape[1])
        worst = float(sums[np.argmax(np.abs(sums - 1.0))])
        if abs(worst - 1.0) > allowed:
            raise _no_probability(
                f"{where} probabilities that add up to {worst:.4g} for one record: name the "
                "columns of all classes, and nothing else."
            )


def _no_probability(sentence: str) -> NotEvaluableError:
    return NotEvaluableError(Reason.PROBABILITIES_INVALID, sentence)

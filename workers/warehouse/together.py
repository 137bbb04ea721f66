"""Joint promise of all models that were trained on the same labels."""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from privcore.guarantees import Relation, implied
from privcore.guarantees.composed import composed_epsilon
from privcore.lower_bounds import Verdict
from privcore.rounding import exact, guarantee
from workers.lake.manifest import POLICY
from workers.warehouse.model_nights import first_of
from workers.warehouse.store import Warehouse

_MOST_DAYS = 3_660
"""A row may say that training began in the year 1."""
_NAMED = 3
_NO_PROMISE = {Verdict.VACUOUS, Verdict.NOT_A_GUARANTEE, Verdict.PRIVATISED}
_AUDIT = ("audit_id", "day", "dataset", "model", "privacy_unit", "verdict", "epsilon_declared",
          "delta_declared", "neighbors", "declared_by", "label_days", "trained_since",
          "exploratory", "plan")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Together:
    """Models that training read the same labels of one day for, by their audits of the same unit.

    Beside audits of rows, those of persons count, too.

    A model that is trained again on these labels on a later day makes a promise of its own for
    them each time.

    Attributes:
        day: whose labels.
        dataset: of the lake, or the table.
        unit: the audits' privacy unit; None for rows.
        models: all whose audits name these labels.
        trainings: how often these were trained on them: audits, of whatever day.
        undeclared: those that promise nothing.
        delta: at which the promises are composed.
        epsilon_composed: what all declarations promise together at `delta`, under replacement;
            infinity where a model promises nothing, or the deltas exceed it.
        largest: models with the largest declarations, under replacement, and these.
    """

    day: dt.date
    dataset: str
    unit: str | None
    models: tuple[str, ...]
    trainings: int
    undeclared: tuple[str, ...]
    delta: float
    epsilon_composed: float
    largest: tuple[tuple[str, float], ...] = ()

    def exceeds(self, epsilon: float) -> bool:
        """Return whether what is promised exceeds a total."""
        return self.epsilon_composed > epsilon

    def sentence(self, total: float | None = None) -> str:
        """Return what the models promise together, and whether that exceeds a total."""
        names = ", ".join(self.models)
        said = f"{names} were audited on the same labels. "
        if self.trainings > len(self.models):
            said = f"Training read the labels of {self.day} {self.trainings} times, for {names}. "
        if self.undeclared:
            said += f"Together they promise nothing: nothing holds of {', '.join(self.undeclared)}."
        elif math.isinf(self.epsilon_composed):
            said += f"Their declarations promise nothing together at delta {exact(self.delta)}."
        else:
            said += f"Their declarations compose to {guarantee(self._rounded_up, self.delta)}."
        if len(self.models) > 1 and self.largest:
            named = ", ".join(f"{model} ({exact(epsilon)})" for model, epsilon in self.largest)
            said += f" The largest, under replacement: {named}."
        if total is None:
            return said
        word = "is exceeded" if self.exceeds(total) else "is kept"
        return f"{said} The total of {guarantee(total, self.delta)} {word}."

    @property
    def _rounded_up(self) -> float:
        return math.ceil(self.epsilon_composed * 1000.0 - 1e-9) / 1000.0


def together(
    warehouse: Warehouse,
    *,
    day: dt.date | None = None,
    delta: float = 0.0,
) -> list[Together]:
    """Return what models promise together, for each label partition and unit.

    The current record of each model and day counts, of labels alone. Its labels are those of its
    own day, of `label_days` where several played, and of all days since `trained_since`. A record
    without figures and without a dataset names no labels and is not among them.

    Args:
        warehouse: where the records are.
        day: of whose audits alone, with others on the same labels; then each dataset's day of
            labels that promises most. All days and partitions by default.
        delta: at which declarations are composed.
    """
    audits = _audits(warehouse, day)
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in audits.sort("day", "dataset", "model").iter_rows(named=True):
        for labels in _label_days(row):
            found.setdefault((labels, row["dataset"], row["privacy_unit"]), []).append(row)
    _add_promises_for_persons(found)
    if day is not None:
        asked = (key for key, rows in found.items() if day in {row["day"] for row in rows})
        found = {key: found[key] for key in _promised_most(asked, found)}
    return [_partition(key, found[key], delta) for key in sorted(found, key=str)]


def _audits(warehouse: Warehouse, day: dt.date | None) -> pl.DataFrame:
    """Return the audits of a day, or of all, with all others that may share labels with them.

    Later ones, too, where the day was audited after them.
    """
    named = pl.col("dataset").is_not_null()
    days = None if day is None else [day]
    audits = warehouse.current(days=days, columns=_AUDIT).filter(named)
    since = min((_label_days(row)[0] for row in audits.iter_rows(named=True)), default=day)
    if day is None or since is None:
        return audits
    if since == day and not _read_later(warehouse, day):
        return audits
    others = warehouse.current(columns=_AUDIT).filter(named)
    return others.filter(pl.col("day") >= since)


def _read_later(warehouse: Warehouse, day: dt.date) -> bool:
    """Return whether training for a later day read the labels of one again."""
    first = pl.min_horizontal("trained_since", pl.col("label_days").list.min())
    later = warehouse.scan("audits").filter(pl.col("day") > day, first <= day)
    return bool(warehouse.collect(later.select(pl.len())).item())


def _label_days(row: Mapping[str, Any]) -> list[dt.date]:
    """Return the days whose labels training read, ascending; at most `_MOST_DAYS`."""
    named = (row["day"], row["trained_since"], *(row["label_days"] or ()))
    first = max(min(filter(None, named)), first_of(row["day"], _MOST_DAYS))
    return [first + dt.timedelta(days=step) for step in range((row["day"] - first).days + 1)]


def _add_promises_for_persons(found: dict[tuple[Any, ...], list[dict[str, Any]]]) -> None:
    """Add to audits of rows those of persons: what a model promises for these, it does for rows.

    So a model's own unit takes it out of no total, also where no audit is of rows.
    """
    units: dict[tuple[Any, ...], list[str | None]] = {}
    for *partition, unit in found:
        units.setdefault(tuple(partition), []).append(unit)
    for labels, its in units.items():
        if len(its) > 1:
            of_persons = [row for unit in its if unit is not None for row in found[*labels, unit]]
            found.setdefault((*labels, None), []).extend(of_persons)


def _promised_most(
    keys: Iterable[tuple[Any, ...]],
    found: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]],
) -> list[tuple[Any, ...]]:
    """Return of each dataset and unit the day of labels that promises most, the latest such.

    By the sum of the declarations: the composition of each day would take long. The day that was
    read most often is not enough, since one large declaration may be for another day alone. It is
    kept beside, as many small ones compose to less than their sum.
    """

    def promised(key: tuple[Any, ...]) -> float:
        each = [_implied(row) if _promises(row) else None for row in found[key]]
        return sum(math.inf if one is None else one[0] for one in each)

    most: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    ordered = sorted(keys, key=lambda key: key[0])
    for kind, size in (("read", lambda key: len(found[key])), ("promised", promised)):
        for key in sorted(ordered, key=size):
            most[kind, *key[1:]] = key
    return list(dict.fromkeys(most.values()))


def together_table(found: Sequence[Together], total: float | None) -> pl.DataFrame:
    """Return one row for each label partition, with what it is held against."""
    schema = {
        "day": pl.Date,
        "dataset": pl.String,
        "unit": pl.String,
        "models": pl.Int64,
        "trainings": pl.Int64,
        "epsilon_composed": pl.Float64,
        "delta": pl.Float64,
        "total": pl.Float64,
        "exceeded": pl.Boolean,
        "sentence": pl.String,
    }
    rows = [
        {
            "day": one.day,
            "dataset": one.dataset,
            "unit": one.unit,
            "models": len(one.models),
            "trainings": one.trainings,
            "epsilon_composed": one.epsilon_composed,
            "delta": one.delta,
            "total": total,
            "exceeded": None if total is None else one.exceeds(total),
            "sentence": one.sentence(total),
        }
        for one in found
    ]
    return pl.DataFrame(rows, schema=schema)


def _partition(
    key: tuple[Any, ...],
    rows: Sequence[Mapping[str, Any]],
    delta: float,
) -> Together:
    promising = [(row["model"], one) for row in rows if _promises(row) and (one := _implied(row))]
    promised = [one for _, one in promising]
    of_each = {model: epsilon for model, (epsilon, _) in sorted(promising)}
    undeclared = tuple(sorted({row["model"] for row in rows if not _promises(row)}))
    composed = math.inf if undeclared else composed_epsilon(promised, delta=delta)
    return Together(
        day=key[0],
        dataset=key[1],
        unit=key[2],
        models=tuple(sorted({row["model"] for row in rows})),
        trainings=len(rows),
        undeclared=undeclared,
        delta=delta,
        epsilon_composed=composed,
        largest=tuple(sorted(of_each.items(), key=lambda one: (-one[1], one[0]))[:_NAMED]),
    )


def _promises(row: Mapping[str, Any]) -> bool:
    """Return whether an owner promises something for these labels; house policy is no promise."""
    return _declares(row) and row["verdict"] not in _NO_PROMISE


def _declares(row: Mapping[str, Any]) -> bool:
    return (
        row["epsilon_declared"] is not None
        and row["declared_by"] != POLICY
        and _implied(row) is not None
    )


def _implied(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return a declaration under replacement, in which all are composed; None of no guarantee."""
    try:
        epsilon, delta = implied(
            row["epsilon_declared"],
            delta=row["delta_declared"] or 0.0,
            given=Relation(row["neighbors"]),
            asked=Relation.REPLACE,
        )
    except ValueError:  # no audit writes it
        return None
    if not math.isfinite(epsilon):
        return None
    return float(epsilon), float(min(delta, np.nextafter(1.0, 0.0)))

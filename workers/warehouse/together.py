"""Joint promise of all models that were trained on the same labels."""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from privcore.guarantees import Relation, implied
from privcore.guarantees.relations import composed_epsilon
from privcore.lower_bounds.verdicts import ReasonCode
from privcore.rounding import exact, guarantee
from workers.lake.manifest import POLICY
from workers.warehouse.store import Warehouse

_NO_PROMISE = {
    ReasonCode.DECLARATION_EMPTY,
    ReasonCode.DELTA_DECIDES,
    ReasonCode.OVER_POLICY,
    ReasonCode.LABELS_PRIVATISED,
}
_AUDIT = ("day", "dataset", "model", "reason_code", "epsilon_declared", "delta_declared",
          "neighbors", "declared_by", "label_days", "trained_since")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Together:
    """Models that training read the same labels of one day for, by their audits.

    A model that is trained again on these labels on a later day makes a promise of its own for
    them each time. What a model promises for persons, it promises for rows.

    Attributes:
        models: all whose audits name these labels.
        trainings: how often these were trained on them: audits, of whatever day.
        undeclared: those that promise nothing.
        delta: at which the promises are composed.
        epsilon_composed: what all declarations promise together at `delta`, under replacement;
            infinity where a model promises nothing, or the deltas exceed it.
    """

    day: dt.date
    dataset: str
    models: tuple[str, ...]
    trainings: int
    undeclared: tuple[str, ...]
    delta: float
    epsilon_composed: float

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
            rounded_up = math.ceil(self.epsilon_composed * 1000.0 - 1e-9) / 1000.0
            said += f"Their declarations compose to {guarantee(rounded_up, self.delta)}."
        if total is None:
            return said
        word = "is exceeded" if self.exceeds(total) else "is kept"
        return f"{said} The total of {guarantee(total, self.delta)} {word}."


def together(warehouse: Warehouse, day: dt.date, *, delta: float = 0.0) -> list[Together]:
    """Return what models promise together for labels that the audits of a day name, by dataset.

    Of each dataset those of the day whose declarations have the largest sum, the latest such. The
    current record of each model and day counts, of labels alone. Its labels are those of its own
    day, of `label_days` where several played, and of all days since `trained_since`. A record
    without figures and without a dataset names no labels and is not among them.
    """
    found: dict[tuple[str, dt.date], list[dict[str, Any]]] = {}
    for row in _audits(warehouse, day).sort("day", "dataset", "model").iter_rows(named=True):
        row["promise"] = _promise(row)
        for labels in _label_days(row):
            found.setdefault((row["dataset"], labels), []).append(row)

    def largest(key: tuple[str, dt.date]) -> tuple[float, dt.date]:
        promises = (row["promise"] for row in found[key])
        return sum(promise[0] if promise else math.inf for promise in promises), key[1]

    asked = (key for key, rows in found.items() if any(row["day"] == day for row in rows))
    most = {key[0]: key for key in sorted(asked, key=largest)}  # the last of each dataset stays
    return [_together(most[dataset], found[most[dataset]], delta) for dataset in sorted(most)]


def _audits(warehouse: Warehouse, day: dt.date) -> pl.DataFrame:
    """Return the audits of a day with all others, also of later days, that may share labels."""
    named = pl.col("dataset").is_not_null()
    audits = warehouse.current(days=[day], columns=_AUDIT).filter(named)
    since = min((_label_days(row)[0] for row in audits.iter_rows(named=True)), default=day)
    first = pl.min_horizontal("day", "trained_since", pl.col("label_days").list.min())
    sharing = warehouse.scan("audits").filter(pl.col("day") >= since, first <= day)
    days = warehouse.collect(sharing.select("day").unique())["day"].to_list()
    return warehouse.current(days=days, columns=_AUDIT).filter(named)


def _label_days(row: Mapping[str, Any]) -> list[dt.date]:
    """Return the days whose labels training read, ascending."""
    last = row["day"]
    first = min(filter(None, (last, row["trained_since"], *(row["label_days"] or ()))))
    return [first + dt.timedelta(days=step) for step in range((last - first).days + 1)]


def _together(
    key: tuple[str, dt.date], rows: Sequence[Mapping[str, Any]], delta: float
) -> Together:
    promised = [row["promise"] for row in rows if row["promise"] is not None]
    undeclared = tuple(sorted({row["model"] for row in rows if row["promise"] is None}))
    return Together(
        day=key[1],
        dataset=key[0],
        models=tuple(sorted({row["model"] for row in rows})),
        trainings=len(rows),
        undeclared=undeclared,
        delta=delta,
        epsilon_composed=math.inf if undeclared else composed_epsilon(promised, delta=delta),
    )


def _promise(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return an owner's promise under replacement, in which all are composed; None of no promise.

    House policy is none.
    """
    if row["epsilon_declared"] is None or row["declared_by"] == POLICY:
        return None
    epsilon, delta = implied(
        row["epsilon_declared"],
        delta=row["delta_declared"] or 0.0,
        given=Relation(row["neighbors"]),
        asked=Relation.REPLACE,
    )
    if row["reason_code"] in _NO_PROMISE or not math.isfinite(epsilon):
        return None
    return float(epsilon), float(min(delta, np.nextafter(1.0, 0.0)))

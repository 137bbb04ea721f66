"""Worlds of persons with several rows, audited as score tables: honest models that know persons."""

import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from privcore.attacks import ScoredRecords, UnitChoices, unit_records
from tests.support.lake import DAY, declared
from tests.support.score_tables import PLAN, audit
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.warehouse.schema import AuditRecord, AuditRow

_LEVELS = np.linspace(-3.0, 3.0, 25)


def persons(
    random: np.random.Generator,
    *,
    people: int = 500,
    rows: int = 8,
    epsilon: float = 0.5,
    spread: float = 2.0,
    by: str = "person",
    held_out: float = 0.4,
) -> pl.DataFrame:
    """Return rows of persons and what an honest model says of them.

    Each label is drawn from the row's features and from a level that its person has. Training reads
    each training row's label by randomized response at `epsilon`, and nothing else, so every row's
    loss is at most `epsilon`. The target is the best guess from all of these responses: it learns
    the levels of persons in training. The proxy knows the features alone. The holdout is drawn
    `by` person or by row.
    """
    owner = np.repeat(np.arange(people), rows)
    base = random.normal(0.0, 0.7, owner.size)
    chances = expit(base[:, None] + spread * _LEVELS)  # of each row, at each level
    prior = np.exp(-(_LEVELS**2) / 2.0)
    prior /= prior.sum()
    level = spread * _LEVELS[random.choice(_LEVELS.size, people, p=prior)]
    label = random.random(owner.size) < expit(base + level[owner])
    keep = expit(epsilon)
    said = np.where(random.random(owner.size) < keep, label, ~label)
    train = random.random(people if by == "person" else owner.size) >= held_out
    train = train[owner] if by == "person" else train
    likely = np.where(said[:, None], keep, 1.0 - keep) * chances
    unlikely = np.where(said[:, None], 1.0 - keep, keep) * (1.0 - chances)
    evidence = np.where(train[:, None], np.log(likely + unlikely), 0.0)
    known = np.zeros((people, _LEVELS.size))
    np.add.at(known, owner, evidence)
    weights = prior * np.exp(known - known.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    told = np.where(train[:, None], likely / (likely + unlikely), chances)
    order = random.permutation(owner.size)  # a person's rows lie anywhere
    return pl.DataFrame(
        {
            "person": owner,
            "clicked": label.astype(np.int64),
            "p_today": np.sum(weights[owner] * told, axis=1),
            "p_yesterday": chances @ prior,
            "split": np.where(train, "train", "holdout"),
        }
    )[order]


def with_features(
    frame: pl.DataFrame, random: np.random.Generator, *, apart: float = 0.01
) -> pl.DataFrame:
    """Return the rows without their person's name, whose four features tell it.

    Each row's differ from its person's by `apart`, so that no value names a person.
    """
    people = int(frame["person"].to_numpy().max()) + 1
    features = random.normal(size=(people, 4))[frame["person"].to_numpy()]
    features = features + apart * random.normal(size=features.shape)
    named = {f"feature{place}": column for place, column in enumerate(features.T)}
    return frame.drop("person").with_columns(**{k: pl.Series(v) for k, v in named.items()})


FEATURES = [f"feature{place}" for place in range(4)]


def audit_table(folder: pathlib.Path, frame: pl.DataFrame, **given: Any) -> AuditRow:
    """Return the audit's row of `record_of_table`."""
    return record_of_table(folder, frame, **given).audit


def record_of_table(
    folder: pathlib.Path,
    frame: pl.DataFrame,
    *,
    epsilon: float,
    unit: str = "record",
    plan: Plan | None = None,
    privacy: dict[str, Any] | None = None,
    row_group_size: int = 1 << 16,
    **settings: Any,
) -> AuditRecord:
    """Return the record of the rows as a score table with a declaration for one `unit`."""
    place = folder / f"day={DAY}"
    place.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(place / "part-0.parquet", row_group_size=row_group_size)
    given = {"table": str(folder), "label": "clicked", "target": "p_today", "proxy": "p_yesterday"}
    table = ScoreTables.model_validate(given | settings)
    return audit(table, privacy=privacy or declared(epsilon, unit=unit), plan=plan or PLAN)


def units_of(rows: Iterable[int], arm: str = "training") -> UnitChoices:
    """Return an arm's persons, each of so many rows, of which the models know nothing."""
    many = np.array(list(rows), dtype=int)
    people = np.repeat([f"{arm} {number}" for number in range(many.size)], many).astype(str)
    chances, places = np.full((people.size, 2), 0.5), np.arange(people.size)
    records = ScoredRecords(chances, chances, places % 2, key=1, indices=places, group=0)
    return unit_records(records, people, unit_key=2)

"""Days of teams that split, sample and log in six ways that break what an audit compares.

Issue 31 measured each of them: honest models were accused, or false declarations acquitted. A day
is a table of rows with the predictions of two LightGBM models of one pipeline, and the models. Each
practice has a twin: the same team, whose holdout, sampling, unit or log is as an audit assumes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study import exam_worlds
from flows.study.exam_worlds import (
    COLUMNS,
    SMOOTH,
    Day,
    Learner,
    Rows,
    fit,
    log_odds_of,
    read_by_training,
    rows_of,
    together,
)

Random = np.random.Generator
BY_HEART: Learner = {"num_leaves": 63, "min_data_in_leaf": 1, "rounds": 200}
FEATURES = tuple(f"x{place}" for place in range(COLUMNS))


@dataclass(frozen=True)
class TeamDay:
    """One day of a team.

    Attributes:
        frame: rows with features, label (`clicked`), `split`, and both models' predictions.
        target: LightGBM's text of the day's model.
        proxy: of the day before's.
        epsilon: what is declared for one `unit`.
        unit: as the manifest names it.
        privacy_unit: the plan's; None where rows are audited.
        kept: shares of rows that training kept, by label, as the settings declare them.
    """

    frame: pl.DataFrame
    target: str
    proxy: str
    epsilon: float
    unit: str = "record"
    privacy_unit: str | None = None
    kept: dict[str, float] = field(default_factory=dict)


def _day(made: Day, random: Random, **columns: NDArray[Any]) -> TeamDay:
    """Return a team's day; `columns` are of training rows, then holdout's.

    Of models that read no label 0.5 is declared.
    """
    features, labels = together(made.trained, made.held)
    models = {"p_today": made.target, "p_yesterday": made.proxy}
    frame = pl.DataFrame(
        {
            "clicked": labels,
            **{name: np.asarray(model.predict(features)) for name, model in models.items()},
            "split": np.repeat(["train", "holdout"], [len(made.trained[1]), len(made.held[1])]),
            **dict(zip(FEATURES, features.T, strict=True)),
            **columns,
        }
    )[random.permutation(labels.size)]
    target, proxy = (model.model_to_string() for model in models.values())
    return TeamDay(frame, target, proxy, made.epsilon or 0.5)


def fixed_holdout(random: Random, **options: Any) -> TeamDay:
    return _day(exam_worlds.fixed_holdout(random, **options), random)


def down_sampled(
    random: Random, *, kept: float, epsilon: float | None = None, declared: bool = False
) -> TeamDay:
    day = _day(exam_worlds.down_sampled(random, kept=kept, epsilon=epsilon), random)
    return replace(day, kept={"0": kept} if declared else {})


def _persons(random: Random, people: int, rows: int) -> tuple[Rows, NDArray[np.int64]]:
    """Return rows of persons whose features say who it is, and whose labels a level of theirs."""
    owner = np.repeat(np.arange(people), rows)
    features = random.normal(size=(people, len(FEATURES)))[owner]
    features[:, 0] = random.normal(size=owner.size)
    level = 2.0 * random.normal(size=people)
    chance = 1.0 / (1.0 + np.exp(-(level[owner] + 0.7 * features[:, 0])))
    return (features, (random.random(owner.size) < chance).astype(int)), owner


def of_persons(
    random: Random,
    *,
    by_person: bool = True,
    privacy_unit: str | None = None,
    unit: str = "record",
    epsilon: float = 0.5,
) -> TeamDay:
    """500 persons of 8 rows, two fifths of which are held out; each row's response is at 0.5.

    So 0.5 is true of a row, and 4 of a person. Persons are held out whole, or rows one by one.
    """
    (features, labels), owner = _persons(random, 500, 8)
    other, _ = _persons(random, 500, 8)
    held = (random.random(500) < 0.4)[owner] if by_person else random.random(owner.size) < 0.4
    arms = (features[~held], labels[~held]), (features[held], labels[held])
    proxy = fit(read_by_training(other, 0.5, random), **SMOOTH)
    target = fit(read_by_training(arms[0], 0.5, random), **SMOOTH)
    person = np.concatenate([owner[~held], owner[held]])
    day = _day(Day(*arms, target, proxy, epsilon), random, person=person)
    return replace(day, unit=unit, privacy_unit=privacy_unit)


def logged(random: Random, *, twice: bool) -> TeamDay:
    """3,000 + 1,000 events, once or twice; each row's label gets noise of its own, at 2."""
    truth = log_odds_of(random)
    parts = (rows_of(truth, many, random) for many in (3_000, 3_000, 1_000))
    before, rows, held = (together(each, each) if twice else each for each in parts)
    models = (fit(read_by_training(each, 2.0, random), **BY_HEART) for each in (rows, before))
    return _day(Day(rows, held, *models, 2.0), random)


def holdout_trained_on(
    random: Random, *, share: float, epsilon: float | None = None, learner: Learner = BY_HEART
) -> TeamDay:
    """Training saw a share of the 1,500 rows that are called holdout.

    Without an `epsilon` labels are plain, and the 0.5 that is declared is false.
    """
    truth = log_odds_of(random)
    before, rows = (rows_of(truth, 6_000, random) for _ in range(2))
    held = rows_of(truth, 1_500, random)
    seen = random.random(1_500) < share
    every = together(rows, (held[0][seen], held[1][seen]))
    proxy = fit(read_by_training(before, epsilon, random), **learner)
    target = fit(read_by_training(every, epsilon, random), **learner)
    return _day(Day(rows, held, target, proxy, epsilon or 0.5), random)


World = Callable[[Random], TeamDay]
PRACTICES: dict[str, World] = {
    "golden holdout, no label read": partial(fixed_holdout, known=True),
    "golden holdout, labels at 1": partial(fixed_holdout, known=True, epsilon=1.0),
    "5% of negatives kept, no label read": partial(down_sampled, kept=0.05),
    "50% of negatives kept, no label read": partial(down_sampled, kept=0.5),
    "20% of negatives kept, labels at 1": partial(down_sampled, kept=0.2, epsilon=1.0),
    "held out by person, claim for a row": of_persons,
    "privacy_unit is a person, claim for a row": partial(of_persons, privacy_unit="person"),
    "rows logged twice, labels at 2": partial(logged, twice=True),
}
TWINS: dict[str, World] = {
    "new holdout, no label read": partial(fixed_holdout, known=False),
    "new holdout, labels at 1": partial(fixed_holdout, known=False, epsilon=1.0),
    "5% of negatives kept and declared, no label read": partial(
        down_sampled, kept=0.05, declared=True
    ),
    "20% of negatives kept and declared, no label read": partial(
        down_sampled, kept=0.2, declared=True
    ),
    "50% of negatives kept and declared, no label read": partial(
        down_sampled, kept=0.5, declared=True
    ),
    "20% of negatives kept and declared, labels at 1": partial(
        down_sampled, kept=0.2, epsilon=1.0, declared=True
    ),
    "rows of persons held out one by one": partial(of_persons, by_person=False),
    "privacy_unit is a person, claim for a person": partial(
        of_persons, privacy_unit="person", unit="person", epsilon=4.0
    ),
    "rows logged once, labels at 2": partial(logged, twice=False),
    "none of the holdout trained on, labels at 1": partial(
        holdout_trained_on, share=0.0, epsilon=1.0
    ),
    "none of the holdout trained on, plain labels": partial(holdout_trained_on, share=0.0),
}
"""Honest twins; the last one's labels are plain, so its declaration is false and is refuted."""

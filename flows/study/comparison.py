"""`privaudit study comparison`: label inference against membership inference on the same models.

Figures 1 and 5 of "Observational Auditing of Label Privacy"
(arXiv:2511.14084). All three attacks read the same target and the same reference, the model of the
day before. Members are training records, non-members holdout records; half of the holdout is the
population that RMIA and the loss's threshold need, the other half plays.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study.cells import Cell, CellRow, check_scale
from flows.study.comparison_shown import DATA, PARAMETERS, shown
from flows.study.runner import Study
from flows.study.three_attacks import (
    DELTA,
    REPETITIONS,
    SEED,
    SIGNIFICANCE,
    Answers,
    attack_figures,
    play_all,
)
from privcore.attacks import generator
from workers.datasets import criteo, flights
from workers.datasets.synthetic_criteo import synthetic_clicks
from workers.executors import InProcess
from workers.lake.manifest import Feature, LabelColumn
from workers.training import Learner, MultiStage, TrainingData

EPSILONS = (math.inf, 8.0, 4.0, 2.0, 1.0)
CLICKS = 150_000  # made-up ones a day; flights are two whole months, 26,000 and 24,000
HOLDOUT_SHARE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """One day, or month: what is trained on and what is held out."""

    train: TrainingData
    holdout: TrainingData


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A proxy's day and a target's day of the same data."""

    label: LabelColumn
    features: tuple[Feature, ...]
    proxy: Day
    target: Day


def study(*, scale: float) -> Study:
    """Return the study: models trained with randomized response, and all attacks on each."""
    check_scale(scale)
    cells = [
        Cell(
            f"{data}-{epsilon:g}",
            {
                "data": data,
                "epsilon": epsilon,
                "scale": scale,
                "seed": SEED,
                "clicks": CLICKS,
                "holdout_share": HOLDOUT_SHARE,
                "catboost": PARAMETERS,
                "repetitions": REPETITIONS,
                "delta": DELTA,
                "significance": SIGNIFICANCE,
            },
        )
        for data in DATA
        for epsilon in EPSILONS
    ]
    return Study(
        "Comparison",
        "Label inference beside membership inference",
        cells,
        compute,
        None,
        lambda found: shown(found.rows, scale),
        scale,
    )


def compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the rows of one model: each attack's figures."""
    data, epsilon = cell.parameters["data"], cell.parameters["epsilon"]
    make = {"clicks": click_world, "flights": flight_world}[data]
    world = make(cell.parameters["scale"])
    learner = Learner(world.label, world.features, SEED, PARAMETERS)

    def fitted(train: TrainingData, budget: float) -> Any:
        random = generator(SEED, data, f"{budget:g}")
        method = MultiStage(budget)
        return method.fit(train, learner, random=random, executor=InProcess()).fitted

    proxy, target = fitted(world.proxy.train, math.inf), fitted(world.target.train, epsilon)
    days = (world.target.train, world.target.holdout)
    answers = [_answers(target, proxy, learner, part) for part in days]
    return [
        {
            "data": DATA[data],
            "epsilon": "inf" if math.isinf(epsilon) else f"{epsilon:g}",
            "attack": attack,
            "records": tally.records,
            **attack_figures(tally),
        }
        for attack, tally in play_all(*answers).items()
    ]


def _answers(target: Any, proxy: Any, learner: Learner, data: TrainingData) -> Answers:
    """Return what both models say of some records."""
    asked = [learner.predict(model, data.features) for model in (target, proxy)]
    return Answers(asked[0], asked[1], data.labels)


def click_world(scale: float) -> World:
    """Return two days of made-up clicks."""
    rows = max(2_000, round(CLICKS * scale))
    days = []
    for number in (0, 1):
        frame = synthetic_clicks(rows, day=number, seed=SEED).frame.with_columns(
            pl.col(criteo.CATEGORICAL).fill_null("")
        )
        days.append(_split(frame, criteo.LABEL, criteo.FEATURES, number))
    return World(criteo.LABEL, criteo.FEATURES, *days)


def flight_world(scale: float) -> World:
    """Return January and February of the flights, or the first share of each."""
    table = flights.read_flights().filter(pl.col("arr_delay").is_not_null())
    days = []
    for month in (1, 2):
        of_month = table.filter(pl.col("month") == month)
        frame = of_month.sample(max(1_000, round(of_month.height * scale)), seed=SEED).select(
            flights.late(),
            *(pl.col(feature.name).cast(pl.Float32) for feature in flights.FEATURES),
        )
        days.append(_split(frame, flights.LABEL, flights.FEATURES, month))
    return World(flights.LABEL, flights.FEATURES, *days)


def _split(
    frame: pl.DataFrame, label: LabelColumn, features: tuple[Feature, ...], number: int
) -> Day:
    """A fifth held out at random."""
    data = TrainingData(
        frame.select(feature.name for feature in features),
        frame[label.column].cast(pl.Int64).to_numpy(),
    )
    shuffled = generator(SEED, "split", label.column, number).permutation(data.records)
    held_out = round(HOLDOUT_SHARE * data.records)
    return Day(_take(data, shuffled[held_out:]), _take(data, shuffled[:held_out]))


def _take(data: TrainingData, rows: NDArray[np.int64]) -> TrainingData:
    return TrainingData(data.features[rows], data.labels[rows])

"""`privaudit study comparison`: label inference against membership inference on the same models.

Figures 1 and 5 and Table 7's rows for tabular data of "Observational Auditing of Label Privacy"
(arXiv:2511.14084). All three attacks read the same target and the same reference, the model of the
day before. Members are training records, non-members holdout records; half of the holdout is the
population that RMIA and the loss's threshold need, the other half plays.
"""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study.cells import Cell, CellRow, check_scale
from flows.study.comparison_shown import (
    DATA,
    DELTA,
    PARAMETERS,
    REPETITIONS,
    SEED,
    SIGNIFICANCE,
    shown,
)
from flows.study.runner import Study
from privcore.attacks import (
    CalibratedLossScore,
    PaperScore,
    RmiaScore,
    Tally,
    generator,
    label_inference,
    membership_inference,
    stream_key,
)
from privcore.guarantees import ApproxDP
from privcore.lower_bounds import Claim, Grid, choice_epsilon_lower
from privcore.lower_bounds.game_evidence import paper_epsilons
from workers.datasets import criteo, flights
from workers.datasets.synthetic_criteo import synthetic_clicks
from workers.executors import InProcess
from workers.lake.manifest import Feature, LabelColumn
from workers.training import Learner, MultiStage, TrainingData

EPSILONS = (math.inf, 8.0, 4.0, 2.0, 1.0)
CLICKS = 150_000  # made-up ones a day; flights are two whole months, 26,000 and 24,000
HOLDOUT_SHARE = 0.2
_SMALLEST = 1e-12


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
    """Return the study: models trained with randomized response, and all attacks on each.

    Args:
        scale: share of the records of each day.

    Raises:
        InvalidInputError: a scale out of its range.
    """
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

    def fitted(train: TrainingData, budget: float) -> Model:
        random = generator(SEED, data, f"{budget:g}")
        method = MultiStage(budget)
        model = method.fit(train, learner, random=random, executor=InProcess())
        return Model(learner, model.fitted)

    proxy, target = fitted(world.proxy.train, math.inf), fitted(world.target.train, epsilon)
    return [
        {
            "data": DATA[data],
            "epsilon": "inf" if math.isinf(epsilon) else f"{epsilon:g}",
            "attack": attack,
            "records": tally.records,
            **_figures(tally),
        }
        for attack, tally in play_all(world.target, target, proxy).items()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A fitted model that is asked for probabilities."""

    learner: Learner
    fitted: object

    def chances(self, data: TrainingData) -> NDArray[np.float64]:
        """Return probabilities of shape (records, classes)."""
        return self.learner.predict(self.fitted, data.features)

    def own(self, data: TrainingData) -> NDArray[np.float64]:
        """Return the probability of each record's own label, shape (records,)."""
        chances = self.chances(data)[np.arange(data.records), data.labels]
        return np.clip(chances, _SMALLEST, 1.0)


def play_all(day: Day, target: Model, proxy: Model) -> dict[str, Tally]:
    """Return each attack's tally: of all training records, and of as many as there are pairs."""
    random = generator(SEED, "pairs", day.train.records)
    half = day.holdout.records // 2
    shuffled = random.permutation(day.holdout.records)
    outsiders, population = _take(day.holdout, shuffled[:half]), _take(day.holdout, shuffled[half:])
    members = _take(day.train, random.permutation(day.train.records)[:half])
    own = {name: (target.own(part), proxy.own(part)) for name, part in (
        ("members", members), ("outsiders", outsiders), ("population", population)
    )}  # fmt: skip
    # What the target does better on all records, members or not, is no membership.
    threshold = float(np.median(_gain(*own["population"])))
    loss, rmia = CalibratedLossScore(threshold), RmiaScore()

    def calibrated(name: str) -> NDArray[np.float64]:
        return loss(-np.log(own[name][0]), -np.log(own[name][1]))

    def outdone(name: str) -> NDArray[np.float64]:
        given = {
            "population_target": own["population"][0],
            "population_reference": own["population"][1],
        }
        return rmia(*own[name], **given)

    def labels(data: TrainingData) -> Tally:
        return label_inference(
            target.chances(data),
            proxy.chances(data),
            data.labels,
            score=PaperScore(),
            repetitions=REPETITIONS,
            key=stream_key(SEED, "labels", data.records),
        )

    def pairs(score: str, in_: NDArray[np.float64], out: NDArray[np.float64]) -> Tally:
        key = stream_key(SEED, "members", score)
        return membership_inference(in_, out, repetitions=REPETITIONS, key=key)

    return {
        "label inference, all records": labels(day.train),
        "label inference, as many as pairs": labels(members),
        "calibrated loss": pairs("loss", calibrated("members"), calibrated("outsiders")),
        "RMIA": pairs("rmia", outdone("members"), outdone("outsiders")),
    }


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


def _gain(target: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the amount by which the target's loss lies below the reference's."""
    return np.asarray(np.log(target) - np.log(reference))


def _figures(tally: Tally) -> CellRow:
    """The paper's figure (uncorrected) and the corrected bound, both at delta 1e-5."""
    random = generator(SEED, "border")
    claim = Claim(family=ApproxDP(), delta=DELTA, significance=SIGNIFICANCE)
    paper = paper_epsilons(tally, claim=claim, delta=DELTA, random=random)
    return {
        "epsilon_paper": float(paper.mean()),
        "epsilon_paper_deviation": float(paper.std()),
        "epsilon_lower": choice_epsilon_lower(tally, claim=claim, choice=Grid(), random=random),
        "accuracy": float(tally.correct.sum() / tally.guesses.sum()),
    }

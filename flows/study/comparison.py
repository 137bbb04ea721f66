"""`privaudit study comparison`: label inference against membership inference on the same models.

Figures 1 and 5 of "Observational Auditing of Label Privacy"
(arXiv:2511.14084). All three attacks read the same target and the same reference, the model of the
day before.
"""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from flows.study.runner import Cell, Shown, Study
from flows.study.tables import (
    ATTACK_COLORS,
    DELTA,
    FIGURE,
    FIGURE_1,
    FIGURE_5,
    MEMBERSHIP,
    PAIRS,
    REPETITIONS,
    SEED,
    SIGNIFICANCE,
    TITLE,
    Answers,
    Axis,
    CellRow,
    attack_figures,
    chart,
    figure_points,
    paragraphs,
    play_all,
    table_of,
)
from privcore.attacks import generator
from privcore.upper_bounds import Published
from workers.datasets import criteo, flights
from workers.datasets.criteo import synthetic_clicks
from workers.executors import InProcess
from workers.training.methods import Learner, MultiStage, TrainingData

PARAMETERS = {"iterations": 100, "learning_rate": 0.4, "depth": 8}
DATA = {"clicks": "synthetic clicks", "flights": "flights"}
EPSILONS = (math.inf, 8.0, 4.0, 2.0, 1.0)
CLICKS = 150_000  # made-up ones a day; flights are two whole months, 26,000 and 24,000
HOLDOUT_SHARE = 0.2
_SETS = {"clicks": criteo, "flights": flights}
_OTHER = {"clicks": "synthetic data", "flights": "other data"}


def study(*, scale: float) -> Study:
    """Return the study: models trained with randomized response, and all attacks on each."""
    setting = {
        "scale": scale,
        "seed": SEED,
        "clicks": CLICKS,
        "holdout_share": HOLDOUT_SHARE,
        "catboost": PARAMETERS,
        "repetitions": REPETITIONS,
        "delta": DELTA,
        "significance": SIGNIFICANCE,
    }
    cells = [
        Cell(f"{data}-{epsilon:g}", {"data": data, "epsilon": epsilon, **setting})
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
    learner = Learner(_SETS[data].LABEL, _SETS[data].FEATURES, SEED, PARAMETERS)
    frames = _days(data, cell.parameters["scale"])
    eve, day = [_split(frame, data, number) for number, frame in frames]

    def fitted(train: TrainingData, budget: float) -> Any:
        random = generator(SEED, data, f"{budget:g}")
        method = MultiStage(budget)
        return method.fit(train, learner, random=random, executor=InProcess()).fitted

    target, proxy = fitted(day[0], epsilon), fitted(eve[0], math.inf)
    answers = [
        Answers(
            learner.predict(target, part.features),
            learner.predict(proxy, part.features),
            part.labels,
        )
        for part in day
    ]
    return [
        {
            "data": DATA[data],
            "epsilon": f"{epsilon:g}",
            "attack": attack,
            "records": tally.records,
            **attack_figures(tally),
        }
        for attack, tally in play_all(*answers).items()
    ]


def _days(data: str, scale: float) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield two days of made-up clicks, or a share of January and of February of the flights."""
    if data == "clicks":
        rows = max(2_000, round(CLICKS * scale))
        for number in (0, 1):
            frame = synthetic_clicks(rows, day=number, seed=SEED).frame
            yield number, frame.with_columns(pl.col(criteo.CATEGORICAL).fill_null(""))
        return
    table = flights.read_flights().filter(pl.col("arr_delay").is_not_null())
    for month in (1, 2):
        found = table.filter(pl.col("month") == month)
        drawn = found.sample(max(1_000, round(found.height * scale)), seed=SEED)
        numbers = (pl.col(feature.name).cast(pl.Float32) for feature in flights.FEATURES)
        yield month, drawn.select(flights.late(), *numbers)


def _split(frame: pl.DataFrame, data: str, number: int) -> list[TrainingData]:
    """Return what is trained on, and a fifth held out at random."""
    label = _SETS[data].LABEL.column
    shuffled = generator(SEED, "split", label, number).permutation(frame.height)
    held_out = round(HOLDOUT_SHARE * frame.height)
    features = frame.select(feature.name for feature in _SETS[data].FEATURES)
    labels = frame[label].cast(pl.Int64).to_numpy()
    return [
        TrainingData(features[rows], labels[rows])
        for rows in (shuffled[held_out:], shuffled[:held_out])
    ]


def shown(attacks: pl.DataFrame, scale: float) -> Shown:
    """Return what there is to show of all attacks."""
    rows = attacks.to_dicts()
    table = table_of(
        "Three attacks on the same models",
        rows,
        {
            "data": "{data}",
            "epsilon": "{epsilon}",
            "attack": "{attack}",
            "records": "{records:,}",
            "right": "{accuracy:.1%}",
            "paper's": FIGURE,
            "lower": "{epsilon_lower:.2f}",
        },
        text=("data", "attack"),
    )
    drawing = chart(
        figure_points(rows, "epsilon", "{attack}", "{data}"),
        "Three attacks on the same models",
        x=Axis("declared epsilon", order=["1", "2", "4", "8", "inf"]),
        y=Axis("paper's figure ± deviation"),
        colors=ATTACK_COLORS,
        size=(260, 220),
    )
    return Shown(
        sentences(attacks, scale),
        [table],
        published(attacks),
        {"comparison": attacks.with_columns(scale=pl.lit(scale), seed=pl.lit(SEED))},
        {"comparison": drawing},
    )


def published(attacks: pl.DataFrame) -> list[Published]:
    """Return what the paper says of Figures 1 and 5 beside ours.

    The paper's data are images, clicks and texts. Ours are others, so no verdict is given.
    """
    rows = []
    for name, data in DATA.items():
        ours = {row["attack"]: row for row in attacks.filter(data=data, epsilon="inf").to_dicts()}
        labels, loss, rmia = (FIGURE.format(**ours[attack]) for attack in (PAIRS, *MEMBERSHIP))
        for place, statement, printed, figures in (
            ("Fig 1", FIGURE_1, "similar", f"{labels}; {loss}"),
            ("Fig 5", FIGURE_5, "slightly above", f"{rmia}; {labels}, {loss}"),
        ):
            quantity = f"{statement}: {data}, epsilon inf"
            rows.append(Published(TITLE, place, quantity, printed, figures, None, _OTHER[name]))
    return rows


def strongest(attacks: pl.DataFrame, data: str) -> int:
    """Return at how many epsilons label inference, with as many records, is at least even."""
    count = 0
    for _, rows in attacks.filter(data=data).group_by("epsilon"):
        figures = dict(rows.select("attack", "epsilon_paper").rows())
        count += figures[PAIRS] >= max(figures[name] for name in MEMBERSHIP)
    return count


def sentences(attacks: pl.DataFrame, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    setting = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    epsilons = attacks["epsilon"].n_unique()
    order = "; ".join(
        f"{data}: at {strongest(attacks, data)} of {epsilons} epsilons" for data in DATA.values()
    )
    return paragraphs(f"""
    Scale {scale:g}, seed {SEED}; CatBoost with {setting}; labels by randomized response at the
    epsilon shown. Figures at delta {DELTA:g} over {REPETITIONS} repetitions: the paper's (Gaussian,
    best of 1..100%, not corrected) and the corrected lower bound at significance {SIGNIFICANCE:g}.
    The clicks are synthetic, not Criteo's.

    Label inference speaks of replacing a label, membership inference of replacing a whole record,
    which randomized response on labels does not promise to hide: features are open.

    Label inference proves at least as much as both others on as many records: {order}.
    """)

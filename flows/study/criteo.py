"""`privaudit study criteo`: Tables 2 and 5 of the game's paper, and its attacks beside each other.

"Observational Auditing of Privacy" (arXiv:2511.14084): a proxy trained on one day, a target on the
next with each mechanism and epsilon. The paper takes the setup of Wu et al. 2023, whose code is
public (`jinpz/label_differential_privacy`) and fixes what the paper does not print: which lines are
drawn, how many trees answer, how PATE votes, how corrected probabilities are clipped.
"""

import datetime as dt
import math
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.progress import announce
from flows.study import attacks
from flows.study.attacks import MODEL, Answers, ModelTable
from flows.study.printed import Setting
from flows.study.runner import Cell, Computed, Shown, Study, kept_arrays
from flows.study.tables import CellRow, paragraphs
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import RandomizedResponse, correct_probabilities
from workers.datasets import criteo as clicks
from workers.datasets.criteo import FEATURES, LABEL, SHARES, VALIDATION
from workers.labels.columns import HOLDOUT, TRAIN
from workers.training.methods import Learner, MultiStage, Pate, TrainedModel, TrainingData

SEED = 2511
PATE = "pate"
MECHANISMS: dict[str, dict[str, Any]] = {
    "lp-1st": {},
    "lp-1st-domain-prior": {"measured_prior": True},
    "lp-1st-noise-correction": {"noise_correction": True},
    "lp-2st": {"stages": 2},
}
"""How each but PATE is trained."""
EPSILONS = (math.inf, 8.0, 4.0, 2.0, 1.0, 0.1)
PARAMETERS = {"iterations": 100, "learning_rate": 0.4, "depth": 8}
TEACHERS, QUERIES, PATE_DELTA = 100, 200, 1e-5
ROWS = 1_000_000  # a day, as in the paper; 80% of it is trained on
CANARIES = 200_000
PROXY_DAY, TARGET_DAY = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
TABLES = {
    "Table 2: figure ± deviation": ModelTable("Table 2"),
    "Table 5: test log-loss": ModelTable(
        "Table 5", "test_log_loss", "test_log_loss_error", 1, ".3f"
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Days:
    """What all models share: the target's day, and what the proxy says of two of its parts.

    `rows` are those of the day, and `files` says whether it was read from files.
    """

    rows: int
    files: bool
    target: TrainingData
    test: TrainingData
    learner: Learner
    proxy: Sequence[NDArray[np.float64]]


def study(
    output: pathlib.Path,
    *,
    scale: float,
    files: Sequence[pathlib.Path] | None = None,
    first: pathlib.Path | None = None,
) -> Study:
    """Return the study, whose days and proxy are there: every mechanism at every epsilon.

    Two days are read, the proxy's from `first` and the target's from `files`, or made up.

    Raises:
        InvalidInputError: files that are not two or that cannot be read.
    """
    files = [*([first] if first else []), *(files or [])]
    if files and len(files) != 2:
        rule = "give two files, the proxy's day and the target's"
        raise InvalidInputError("--input", [str(path) for path in files], rule)
    days = {}
    for number, day in enumerate((PROXY_DAY, TARGET_DAY)):
        rows = max(4_000, round(ROWS * scale))
        if files:
            days[day] = clicks.read_day(files[number], day, rows=rows, seed=SEED)
        else:
            days[day] = clicks.synthetic_day(day, number=number, rows=rows, seed=SEED)
        announce("Days of clicks", number + 1, 2)
    identity = {
        "days": [str(frame.hash_rows(seed=0).sum()) for frame in days.values()],
        "seed": SEED,
        "catboost": PARAMETERS,
        "pate": [TEACHERS, QUERIES, PATE_DELTA],
        "canaries": CANARIES,
        "game": attacks.GAME_SETTINGS,
    }
    data = {
        (day, part): _part(frame, part)
        for day, frame in days.items()
        for part in (TRAIN, VALIDATION, HOLDOUT)
    }
    target, test = data[TARGET_DAY, TRAIN], data[TARGET_DAY, HOLDOUT]
    before, now = (
        Learner(LABEL, FEATURES, SEED, PARAMETERS, data[day, VALIDATION])
        for day in (PROXY_DAY, TARGET_DAY)
    )

    def proxy() -> list[NDArray[np.float64]]:
        model = before.fit(data[PROXY_DAY, TRAIN].features, data[PROXY_DAY, TRAIN].labels)
        return [before.predict(model, part.features) for part in (target, test)]

    said = kept_arrays(output, Cell("proxy", identity), proxy)
    # The longest first, so that no worker waits for it at the end.
    cells = [Cell(PATE, {**identity, "mechanism": PATE})] + [
        Cell(f"{mechanism}-{epsilon:g}", {**identity, "mechanism": mechanism, "epsilon": epsilon})
        for mechanism in MECHANISMS
        for epsilon in EPSILONS
    ]
    return Study(
        "Criteo",
        "Private labels on clicks, by mechanism and epsilon",
        cells,
        _compute,
        Days(days[TARGET_DAY].height, bool(files), target, test, now, said),
        _shown,
        settings_of(files=bool(files), rows=days[TARGET_DAY].height),
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def _part(day: pl.DataFrame, part: str) -> TrainingData:
    rows = day.filter(split=part)
    features = rows.select(feature.name for feature in FEATURES)
    return TrainingData(features, rows[LABEL.column].cast(pl.Int64).to_numpy())


def _compute(days: Days, cell: Cell) -> list[CellRow]:
    mechanism = cell.parameters["mechanism"]
    if mechanism == PATE:
        return [row for epsilon, model in _pate(days) for row in _rows(days, PATE, epsilon, model)]
    method = MultiStage(cell.parameters["epsilon"], **MECHANISMS[mechanism])
    random = generator(SEED, mechanism, f"{method.epsilon:g}", "mechanism")
    model = method.fit(days.target, days.learner, random=random)
    return _rows(days, mechanism, method.epsilon, model)


def _pate(days: Days) -> Iterator[tuple[float, TrainedModel]]:
    """The teachers vote once; each epsilon makes a student of its own."""
    of_class = Pate(
        math.inf,
        delta=PATE_DELTA,
        teachers=min(TEACHERS, days.target.records // 50),
        queries=QUERIES,
    )
    random = generator(SEED, "teachers")
    queried, votes = of_class.vote(days.target, days.learner, random=random)
    for epsilon in EPSILONS:
        random = generator(SEED, PATE, f"{epsilon:g}", "mechanism")
        asked = days.target.features[queried]
        method = replace(of_class, epsilon=epsilon)
        yield epsilon, method.graduate(asked, votes, days.learner, random=random)


def _rows(days: Days, mechanism: str, epsilon: float, model: TrainedModel) -> list[CellRow]:
    arms = [
        Answers(_probabilities(days, model, part.features), proxy, part.labels)
        for part, proxy in zip((days.target, days.test), days.proxy, strict=True)
    ]
    loss = dict(zip(("test_log_loss", "test_log_loss_error"), arms[1].log_loss, strict=True))
    return attacks.model_rows(mechanism, epsilon, arms, canaries=CANARIES, **loss)


def _probabilities(days: Days, model: TrainedModel, features: pl.DataFrame) -> NDArray[np.float64]:
    """Return what a caller of the model gets: its answers after the correction, if it has one."""
    said, correction = days.learner.predict(model.fitted, features), model.output_correction
    if correction is None:
        return said
    flip = RandomizedResponse(correction.epsilon, len(LABEL.classes)).distribution()
    return correct_probabilities(said, flip, floor=correction.floor)


def settings_of(*, files: bool, rows: int) -> list[Setting]:
    """Return what the paper and the cited code fix, beside what it is here."""
    # Malformed rows, at most 1%, are left out of a day.
    whole = 0.99 * ROWS <= rows <= 1.01 * ROWS
    days = "Criteo's day_0 and day_1"
    of_trees = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    return [
        Setting("clicks", days, days if files else "SYNTHETIC, made up in their shape"),
        Setting("rows a day", f"{ROWS:,}", f"{ROWS if whole else rows:,}"),
        Setting("share of lines that is drawn", "0.05", f"{clicks.SAMPLED:g}"),
        Setting("train, validation, test", "0.8, 0.04, 0.16", ", ".join(map(str, SHARES.values()))),
        Setting("canaries", "as many as test records", "as many as test records"),
        Setting("CatBoost", "iterations 100, learning_rate 0.4, depth 8", of_trees),
        Setting("trees that answer", "to the best on validation", "to the best on validation"),
        Setting("PATE: teachers", "100", f"{_teachers(rows)}", PATE),
        Setting("PATE: votes, answers", "drawn, 200", f"drawn, {QUERIES}", PATE),
        Setting("PATE: noise", "Laplace, delta 1e-4", f"Laplace, delta {PATE_DELTA:g}", PATE),
        Setting("epsilon of the domain prior", "0.05", "a twentieth of epsilon", "domain-prior"),
        Setting("corrected probabilities", "in [0, 1]", "in [0, 1]", "noise-correction"),
    ]


def _teachers(rows: int) -> int:
    return min(TEACHERS, round(SHARES[TRAIN] * rows) // 50)


def _shown(days: Days, found: Computed) -> Shown:
    name, kind = ("criteo", "clicks") if days.files else ("criteo_synthetic", "SYNTHETIC clicks")
    rows = found.rows.to_dicts()
    return attacks.game_shown(
        rows,
        _sentences(rows, files=days.files),
        TABLES,
        source=kind,
        data={name: found.rows.with_columns(rows=pl.lit(days.rows))},
        colors="red orange green blue grey",
    )


def _sentences(models: list[CellRow], *, files: bool) -> list[str]:
    labels = attacks.labels_of(models)
    first, best = labels[0], min(labels, key=lambda row: row["test_log_loss"])
    data = (
        "The clicks are those of the files."
        if files
        else "The clicks are synthetic, made up in the shape of Criteo's logs: no figure here says "
        "anything about Criteo."
    )
    known = "" if files else "; knowing every chance of a click, it would be about 0.12"
    above = [MODEL.format(**row) for row in models if row["epsilon_lower"] > float(row["epsilon"])]
    refuted = "No bound is above its model's epsilon."
    if above:
        refuted = f"A BOUND IS ABOVE ITS MODEL'S EPSILON: {', '.join(above)}."
    return paragraphs(f"""
    {data} {first["trained_on"]:,} training records, {first["records"]:,} of them play, as there are
    test records. Trees answer up to the best log-loss on the validation labels, which no mechanism
    protects.

    The paper has 24 days of clicks in section 6.4 and 28 in 6.2, and as many canaries as test
    records, 200,000, where 16% of a million are 160,000.

    The highest control of label inference is
    {max(row["control_epsilon_paper"] for row in labels):.2f}. The lowest test log-loss is
    {best["test_log_loss"]:.3f} ({MODEL.format(**best)}){known}.

    {refuted}
    """)

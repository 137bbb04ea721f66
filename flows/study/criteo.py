"""`privaudit study criteo`: Table 2 and Table 5 of the game's paper, on real or made-up clicks.

"Observational Auditing of Privacy" (arXiv:2511.14084): a proxy trained on one day, a target on the
next with each mechanism and epsilon. Every model goes into the lake with its complete manifest. The
paper's protocol plays with 200,000 of its training records; the audit is that of any other model
and plays with all of them.
"""

import datetime as dt
import math
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.progress import announce
from flows.study.cells import Cell, CellRow, check_scale, make_folder
from flows.study.criteo_shown import (
    EPSILONS,
    MECHANISMS,
    PARAMETERS,
    PATE_PARAMETERS,
    QUERIES,
    SEED,
    TEACHERS,
    shown,
)
from flows.study.paper_protocol import paper_figures
from flows.study.runner import Study
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.noisy_max import Noise
from workers.audit.run import run_audit
from workers.datasets.criteo import FEATURES, LABEL, SYNTHETIC_DATASET
from workers.datasets.synthetic_criteo import write_synthetic_day
from workers.executors import InProcess
from workers.labels.columns import read_shard
from workers.labels.shards import list_shards
from workers.lake.checkpoints import load, probabilities, read_checkpoint, write_checkpoint
from workers.lake.layout import Lake, checkpoint_folder, labels_folder
from workers.plan import Plan
from workers.training import (
    Learner,
    Method,
    MultiStage,
    Pate,
    Recipe,
    TrainedModel,
    TrainingJob,
    declaration,
    method_named,
    read_training_data,
    write_model,
)

ROWS = 1_000_000  # a day, as in the paper; 80% of it is trained on
CANARIES = 200_000  # of the training records, in the paper's protocol; all where there are fewer
PLAN = Plan(power=2.0, repetitions=100, significance=0.05, delta=1e-5, seed=SEED)
_SMALLEST = 1e-15
_PREFIX = "study-criteo-"
_PROXY = f"{_PREFIX}proxy"


@dataclass(frozen=True, slots=True)
class Days:
    """Where the two days are; `synthetic` where they were made up."""

    lake: Lake
    dataset: str
    proxy: dt.date
    target: dt.date
    synthetic: bool


def study(
    output: pathlib.Path, *, scale: float, lake: str | None, dataset: str, start: dt.date
) -> Study:
    """Return the study, whose days and proxy are there: every mechanism at every epsilon.

    Args:
        output: folder of the cells, and of the lake that is made up.
        scale: share of the paper's million rows a day that are made up; a given lake is taken as
            it is.
        lake: one that `privaudit ingest criteo` wrote, with `start` and the day after; the models
            go there too. None makes two days up.
        dataset: its dataset.
        start: the proxy's day.

    Raises:
        InvalidInputError: a scale out of its range, or a folder that cannot be made.
        NotEvaluableError: the lake lacks one of the days.
    """
    check_scale(scale)
    make_folder(output)
    rows = max(4_000, round(ROWS * scale))
    next_day = start + dt.timedelta(days=1)
    if lake is None:
        made_up = Lake(str(output / f"lake-{rows}"))
        days = Days(made_up, SYNTHETIC_DATASET, start, next_day, synthetic=True)
        for number, day in enumerate((start, next_day)):
            if not made_up.exists(labels_folder(SYNTHETIC_DATASET, day)):
                write_synthetic_day(made_up, day, number=number, rows=rows, seed=SEED)
            announce("Days of clicks made up", number + 1, 2)
    else:
        days = Days(Lake(lake), dataset, start, next_day, synthetic=dataset == SYNTHETIC_DATASET)
    if not days.lake.exists(checkpoint_folder(_PROXY, start)):
        announce("Proxy", 0, 1)
        _train_proxy(days)
        announce("Proxy", 1, 1)
    found_rows = sum(shard.rows for shard in list_shards(days.lake, days.dataset, days.target))
    identity = {
        "dataset": days.dataset,
        "labels": _label_files(days),
        "rows": found_rows,
        "seed": SEED,
        "catboost": PARAMETERS,
        "pate": [TEACHERS, QUERIES, "shares", PATE_PARAMETERS],
        "plan": PLAN.model_dump(mode="json"),
        "canaries": CANARIES,
    }
    # The longest first, so that no worker waits for it at the end.
    cells = [Cell("pate", {**identity, "mechanism": "pate"})]
    cells += [
        Cell(f"{mechanism}-{epsilon:g}", {**identity, "mechanism": mechanism, "epsilon": epsilon})
        for mechanism in MECHANISMS
        if not mechanism.startswith("pate")
        for epsilon in EPSILONS
    ]
    first, last, ours = days.proxy, days.target, days.dataset
    return Study(
        "Criteo",
        "Private labels on clicks, by mechanism and epsilon",
        cells,
        compute,
        days,
        lambda found: shown(
            pl.concat(found.rows.filter(mechanism=name) for name in MECHANISMS),
            ours,
            f"{first} and {last}",
            synthetic=days.synthetic,
        ),
        _scale(found_rows),
        data="synthetic data" if days.synthetic else "",
    )


def _scale(rows: int) -> float:
    """Return the share of the paper's day; malformed rows, at most 1%, are left out of a day."""
    return 1.0 if 0.99 * ROWS <= rows <= 1.01 * ROWS else rows / ROWS


def compute(days: Days, cell: Cell) -> list[CellRow]:
    """Return the rows of one model, or of all that PATE's teachers make."""
    if cell.parameters["mechanism"] == "pate":
        return list(_pate(days))
    mechanism, epsilon = cell.parameters["mechanism"], cell.parameters["epsilon"]
    method = method_named(mechanism, epsilon)
    job = _job(days, mechanism, method)
    random = generator(SEED, job.recipe.model, "mechanism")
    data, learner = read_training_data(days.lake, job.recipe, days.target), _learner()
    model = method.fit(data, learner, random=random, executor=InProcess())
    return [_audited(days, job, mechanism, epsilon, model)]


def _label_files(days: Days) -> list[tuple[str, int, int]]:
    """What tells the two days' labels from others: names, sizes, times of change."""
    return [
        (file.name, file.size, file.changed_ns)
        for day in (days.proxy, days.target)
        for file in days.lake.label_files(days.dataset, day)
    ]


def _pate(days: Days) -> Iterator[CellRow]:
    """The teachers vote once; each noise and epsilon makes a student of its own."""
    whole = Recipe(_PREFIX, days.dataset, LABEL, FEATURES)
    data, learner = read_training_data(days.lake, whole, days.target), _learner(PATE_PARAMETERS)
    teachers = min(TEACHERS, data.records // 50)
    class_of = Pate(math.inf, teachers=teachers, queries=QUERIES, answers="shares")
    queried, votes = class_of.vote(
        data, learner, random=generator(SEED, "teachers"), executor=InProcess()
    )
    for mechanism in ("pate-laplace", "pate-gaussian"):
        for epsilon in EPSILONS:
            noise: Noise = "laplace" if mechanism == "pate-laplace" else "gaussian"
            delta = 0.0 if noise == "laplace" else PLAN.delta
            method = replace(class_of, epsilon=epsilon, noise=noise, delta=delta)
            job = _job(days, mechanism, method, PATE_PARAMETERS)
            random = generator(SEED, job.recipe.model, "mechanism")
            model = method.graduate(data.features[queried], votes, learner, random=random)
            yield _audited(days, job, mechanism, epsilon, model)


def _job(
    days: Days, mechanism: str, method: Method, parameters: dict[str, Any] | None = None
) -> TrainingJob:
    privacy = declaration(
        method,
        classes=len(LABEL.classes),
        unit="click",
        declared_by="privaudit study criteo",
        declared_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    name = f"{_PREFIX}{mechanism}-{method.epsilon:g}"
    recipe = Recipe(name, days.dataset, LABEL, FEATURES, method, privacy, parameters or PARAMETERS)
    return TrainingJob(recipe, days.target, SEED)


def _learner(parameters: dict[str, Any] | None = None) -> Learner:
    return Learner(LABEL, FEATURES, SEED, parameters or PARAMETERS)


def _train_proxy(days: Days) -> None:
    recipe = Recipe(_PROXY, days.dataset, LABEL, FEATURES, parameters=PARAMETERS)
    data = read_training_data(days.lake, recipe, days.proxy)
    plain = MultiStage(math.inf)
    model = plain.fit(data, _learner(), random=generator(SEED), executor=InProcess())
    write_model(days.lake, TrainingJob(recipe, days.proxy, SEED), model)


def _audited(
    days: Days, job: TrainingJob, mechanism: str, epsilon: float, model: TrainedModel
) -> CellRow:
    """Write target and proxy under the model's name, audit, and return the row."""
    lake, recipe = days.lake, job.recipe
    proxy = read_checkpoint(lake, _PROXY, days.proxy)
    write_checkpoint(lake, proxy.manifest.model_dump() | {"model": recipe.model}, proxy.content)
    write_model(lake, job, model)
    audit = run_audit(lake, recipe.model, days.target, plan=PLAN, executor=InProcess()).audit
    if audit.status != "evaluated":
        raise InvalidInputError(recipe.model, audit.status, audit.reason)
    other = model.data_dependent
    answers = _answers(lake, recipe, days)
    return {
        "mechanism": mechanism,
        "epsilon": "inf" if math.isinf(epsilon) else f"{epsilon:g}",
        "delta": recipe.mechanism.delta if recipe.mechanism else 0.0,
        "test_log_loss": answers.log_loss,
        **paper_figures(
            *(answers.target, answers.proxy, answers.labels),
            plan=PLAN,
            canaries=CANARIES,
            name=recipe.model,
        ),
        "repetitions": PLAN.repetitions,
        "control_epsilon_paper": audit.control_epsilon_paper,
        "epsilon_lower": audit.epsilon_lower,
        "epsilon_ceiling": audit.epsilon_ceiling,
        "epsilon_accounted": audit.epsilon_accounted,
        "control_epsilon_lower": audit.control_epsilon_lower,
        "control_epsilon_if_proxy_right": audit.control_epsilon_if_proxy_right,
        "method": audit.method,
        "verdict": audit.verdict,
        "records": audit.records,
        "control_records": audit.control_records,
        "data_dependent_epsilon_not_to_be_declared": other.epsilon if other else None,
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """What both models say of the target day's training records, and how the target tests."""

    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]
    log_loss: float


def _answers(lake: Lake, recipe: Recipe, days: Days) -> _Answers:
    checkpoints = [read_checkpoint(lake, recipe.model, day) for day in (days.target, days.proxy)]
    models = [load(checkpoint) for checkpoint in checkpoints]
    target, proxy, labels, losses = [], [], [], []
    for shard in list_shards(lake, recipe.dataset, days.target):
        rows = read_shard(lake, shard, label=recipe.label, features=recipe.features)
        predicted, expected = (
            probabilities(model, checkpoint.manifest, rows.features, threads=1)
            for model, checkpoint in zip(models, checkpoints, strict=True)
        )
        own = predicted[np.arange(len(rows.labels)), rows.labels][rows.holdout]
        losses.append(-np.log(np.clip(own, _SMALLEST, 1.0)))
        target.append(predicted[rows.train])
        proxy.append(expected[rows.train])
        labels.append(rows.labels[rows.train])
    return _Answers(
        np.concatenate(target),
        np.concatenate(proxy),
        np.concatenate(labels),
        float(np.concatenate(losses).mean()),
    )

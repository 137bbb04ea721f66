"""`privaudit study criteo`: Table 2 and Table 5 of the game's paper, on real or made-up clicks.

"Observational Auditing of Privacy" (arXiv:2511.14084): a proxy trained on one day, a target on the
next with each mechanism and epsilon. The paper takes the setup of Wu et al. 2023, whose code is
public (`jinpz/label_differential_privacy`) and fixes what the paper does not print: which lines are
drawn, how many trees answer, how PATE votes, how corrected probabilities are clipped. Every model
goes into the lake with its complete manifest. The paper's protocol plays with 200,000 of its
training records; the audit is that of any other model and plays with all of them.
"""

import datetime as dt
import math
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from flows.progress import announce
from flows.study.cells import Cell, CellRow
from flows.study.criteo_shown import (
    EPSILONS,
    MECHANISMS,
    PARAMETERS,
    QUERIES,
    SEED,
    TEACHERS,
    TREES,
    shown,
)
from flows.study.runner import Study
from flows.study.three_attacks import Answers, paper_figures
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.noisy_max import Noise
from workers.audit.run import run_audit
from workers.datasets.criteo import (
    DATASET,
    FEATURES,
    LABEL,
    SYNTHETIC_DATASET,
    VALIDATION,
    ingest_day,
)
from workers.datasets.synthetic_criteo import write_synthetic_day
from workers.executors import InProcess
from workers.labels.columns import HOLDOUT, TRAIN, read_shard
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
    TrainingData,
    TrainingJob,
    declaration,
    method_named,
    read_training_data,
    write_model,
)

ROWS = 1_000_000  # a day, as in the paper; 80% of it is trained on
CANARIES = 200_000  # of the training records, in the paper's protocol; all where there are fewer
PLAN = Plan(power=2.0, repetitions=100, significance=0.05, delta=1e-5, seed=SEED)
_DAYS = (dt.date(2026, 1, 1), dt.date(2026, 1, 2))
_SMALLEST = 1e-15
_PREFIX = "study-criteo-"
_OF_AUDIT = (
    "control_epsilon_paper", "epsilon_lower", "epsilon_ceiling", "epsilon_accounted",
    "control_epsilon_lower", "control_epsilon_if_proxy_right", "method", "verdict", "records",
    "control_records",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Days:
    """Folders of the two days; `synthetic` where they were made up."""

    lake: Lake
    dataset: str
    proxy: dt.date
    target: dt.date
    synthetic: bool


def study(output: pathlib.Path, *, scale: float, files: Sequence[pathlib.Path] = ()) -> Study:
    """Return the study, whose days and proxies are there: every mechanism at every epsilon.

    Without files two days are made up.

    Raises:
        InvalidInputError: files that are not two or that cannot be read.
    """
    if files and len(files) != 2:
        rule = "give two files, the proxy's day and the target's"
        raise InvalidInputError("--input", [str(path) for path in files], rule)
    days = _own_days(output, max(4_000, round(ROWS * scale)), files)
    for number, trees in enumerate(TREES):
        if not days.lake.exists(checkpoint_folder(_proxy(trees), days.proxy)):
            announce("Proxies", number, len(TREES))
            _train_proxy(days, trees)
            announce("Proxies", number + 1, len(TREES))
    found_rows = sum(shard.rows for shard in list_shards(days.lake, days.dataset, days.target))
    synthetic, first, last = days.synthetic, days.proxy, days.target
    return Study(
        "Criteo",
        "Private labels on clicks, by mechanism and epsilon",
        _cells(days, found_rows),
        compute,
        days,
        lambda found: shown(
            pl.concat(found.rows.filter(mechanism=name) for name in MECHANISMS),
            days.dataset,
            f"{first} and {last}",
            synthetic=synthetic,
        ),
        _scale(found_rows),
        data="synthetic data" if synthetic else "",
    )


def _cells(days: Days, rows: int) -> list[Cell]:
    """Return PATE of either trees, and one cell for each of the other models."""
    identity = {
        "dataset": days.dataset,
        "labels": _label_files(days),
        "rows": rows,
        "seed": SEED,
        "catboost": PARAMETERS,
        "pate": [TEACHERS, QUERIES, PLAN.delta],
        "plan": PLAN.model_dump(mode="json"),
        "canaries": CANARIES,
    }
    # The longest first, so that no worker waits for it at the end.
    pate = [
        Cell(f"pate-{trees}", {**identity, "mechanism": "pate", "trees": trees}) for trees in TREES
    ]
    return pate + [
        Cell(
            f"{mechanism}-{epsilon:g}-{trees}",
            {**identity, "mechanism": mechanism, "epsilon": epsilon, "trees": trees},
        )
        for trees in TREES
        for mechanism in MECHANISMS
        if not mechanism.startswith("pate")
        for epsilon in EPSILONS
    ]


def _own_days(output: pathlib.Path, rows: int, files: Sequence[pathlib.Path]) -> Days:
    """Bring two days into a lake in the study's folder, unless an earlier run did."""
    dataset = DATASET if files else SYNTHETIC_DATASET
    lake = Lake(str(output / f"lake-{dataset}-{rows}"))
    for number, day in enumerate(_DAYS):
        if lake.exists(labels_folder(dataset, day)):
            pass
        elif files:
            ingest_day(lake, files[number], day, rows=rows, seed=SEED)
        else:
            write_synthetic_day(lake, day, number=number, rows=rows, seed=SEED)
        announce("Days of clicks", number + 1, 2)
    return Days(lake, dataset, *_DAYS, synthetic=not files)


def _scale(rows: int) -> float:
    """Return the share of the paper's day; malformed rows, at most 1%, are left out of a day."""
    return 1.0 if 0.99 * ROWS <= rows <= 1.01 * ROWS else rows / ROWS


def compute(days: Days, cell: Cell) -> list[CellRow]:
    """Return the rows of one model, or of all that PATE's teachers make."""
    mechanism, trees = cell.parameters["mechanism"], cell.parameters["trees"]
    if mechanism == "pate":
        return list(_pate(days, trees))
    method = method_named(mechanism, cell.parameters["epsilon"])
    if isinstance(method, MultiStage):
        method = replace(method, floor=0.0)
    random = generator(SEED, mechanism, f"{method.epsilon:g}", "mechanism")
    data, learner = _data(days, days.target), _learner(days, days.target, trees)
    model = method.fit(data, learner, random=random, executor=InProcess())
    return [_audited(days, mechanism, method, trees, model)]


def _label_files(days: Days) -> list[tuple[str, int, int]]:
    """Return what tells the two days' labels from others: names, sizes, times of change."""
    return [
        (file.name, file.size, file.changed_ns)
        for day in (days.proxy, days.target)
        for file in days.lake.label_files(days.dataset, day)
    ]


def _pate(days: Days, trees: str) -> Iterator[CellRow]:
    """The teachers vote once; each noise and epsilon makes a student of its own."""
    data, learner = _data(days, days.target), _learner(days, days.target, trees)
    teachers = min(TEACHERS, data.records // 50)
    class_of = Pate(
        math.inf, delta=PLAN.delta, teachers=teachers, queries=QUERIES, answers="sample"
    )
    queried, votes = class_of.vote(
        data, learner, random=generator(SEED, "teachers"), executor=InProcess()
    )
    noises: dict[str, Noise] = {"pate-laplace": "laplace", "pate-gaussian": "gaussian"}
    for mechanism, noise in noises.items():
        for epsilon in EPSILONS:
            method = replace(class_of, epsilon=epsilon, noise=noise)
            random = generator(SEED, mechanism, f"{epsilon:g}", "mechanism")
            model = method.graduate(data.features[queried], votes, learner, random=random)
            yield _audited(days, mechanism, method, trees, model)


def _data(days: Days, day: dt.date, split: str = TRAIN) -> TrainingData:
    return read_training_data(days.lake, Recipe(_PREFIX, days.dataset, LABEL, FEATURES), day, split)


def _learner(days: Days, day: dt.date, trees: str) -> Learner:
    """CatBoost; the day's validation labels choose how many trees answer, or all do."""
    kept = _data(days, day, VALIDATION) if trees == TREES[0] else None
    return Learner(LABEL, FEATURES, SEED, PARAMETERS, kept)


def _proxy(trees: str) -> str:
    return f"{_PREFIX}proxy-{trees}"


def _train_proxy(days: Days, trees: str) -> None:
    recipe = Recipe(_proxy(trees), days.dataset, LABEL, FEATURES, parameters=PARAMETERS)
    data, learner = _data(days, days.proxy), _learner(days, days.proxy, trees)
    plain = MultiStage(math.inf)
    model = plain.fit(data, learner, random=generator(SEED), executor=InProcess())
    write_model(days.lake, TrainingJob(recipe, days.proxy, SEED), model)


def _audited(
    days: Days, mechanism: str, method: Method, trees: str, model: TrainedModel
) -> CellRow:
    """Write target and proxy under the model's name, audit, and return the row."""
    lake, name = days.lake, f"{_PREFIX}{mechanism}-{method.epsilon:g}-{trees}"
    privacy = declaration(
        method,
        classes=len(LABEL.classes),
        unit="click",
        declared_by="privaudit study criteo",
        declared_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    recipe = Recipe(name, days.dataset, LABEL, FEATURES, method, privacy, PARAMETERS)
    proxy = read_checkpoint(lake, _proxy(trees), days.proxy)
    write_checkpoint(lake, proxy.manifest.model_dump() | {"model": name}, proxy.content)
    write_model(lake, TrainingJob(recipe, days.target, SEED), model)
    audit = run_audit(lake, name, days.target, plan=PLAN, executor=InProcess()).audit
    if audit.status != "evaluated":
        raise InvalidInputError(name, audit.status, audit.reason)
    log_loss, answers = _answers(lake, recipe, days)
    return {
        "mechanism": mechanism,
        "trees": trees,
        "epsilon": f"{method.epsilon:g}",
        "delta": method.delta,
        "test_log_loss": log_loss,
        **paper_figures(answers, plan=PLAN, canaries=CANARIES, name=name),
        "repetitions": PLAN.repetitions,
        **{column: getattr(audit, column) for column in _OF_AUDIT},
    }


def _answers(lake: Lake, recipe: Recipe, days: Days) -> tuple[float, Answers]:
    """Return the target's log-loss, and both models' answers on its day's training records."""
    checkpoints = [read_checkpoint(lake, recipe.model, day) for day in (days.target, days.proxy)]
    models = [load(checkpoint) for checkpoint in checkpoints]
    losses, parts = [], []
    for shard in list_shards(lake, recipe.dataset, days.target):
        rows = read_shard(lake, shard, label=recipe.label, features=recipe.features)
        predicted, expected = (
            probabilities(model, checkpoint.manifest, rows.features, threads=1)
            for model, checkpoint in zip(models, checkpoints, strict=True)
        )
        own = predicted[np.arange(len(rows.labels)), rows.labels][rows.part(HOLDOUT)]
        losses.append(-np.log(np.clip(own, _SMALLEST, 1.0)))
        trained = rows.part(TRAIN)
        parts.append((predicted[trained], expected[trained], rows.labels[trained]))
    log_loss = float(np.concatenate(losses).mean())
    target, proxy, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return log_loss, Answers(target, proxy, labels)

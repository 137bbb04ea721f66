"""`privaudit ladder`: cost of protection, on a team's own rows.

LP-1ST, LP-2ST and PATE models at a few epsilons, and one without protection, are trained on the
same third of a table's rows. Each is audited against a reference model of another third, with the
last third as holdout, whose labels also give the accuracy. Training and audit are those of the
nightly lake: the study's folder holds one.
"""

import datetime as dt
import hashlib
import math
import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from flows.study.cells import Cell, CellRow
from flows.study.drawing import Axis, chart, colored, points_of
from flows.study.runner import Shown, Study
from flows.study.tables import binomial_error, paragraphs, table_of
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.guarantees.composed import composed_epsilon
from privcore.rounding import ABSENT, down, guarantee, up
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.labels.columns import HOLDOUT, SPLIT, TRAIN
from workers.labels.shards import write_labels
from workers.lake.checkpoints import read_checkpoint, write_checkpoint
from workers.lake.layout import Lake, checkpoint_folder, labels_folder
from workers.lake.manifest import Feature, LabelColumn
from workers.plan import Plan
from workers.release.table import read_frame
from workers.training import (
    Learner,
    Method,
    MultiStage,
    Recipe,
    TrainedModel,
    TrainingData,
    TrainingJob,
    declaration,
    describe_partition,
    method_named,
    read_training_data,
    write_model,
)

MECHANISMS = ("lp-1st", "lp-2st", "pate-gaussian")
NONE = "none"
"""Name of the model without protection."""
EPSILONS = (1.0, 2.0, 4.0)
MOST_EPSILONS = 12
MOST_ROWS = 100_000
"""Rows that are drawn of a larger table."""
FEWEST_ROWS = 600
SEED = 0
PARAMETERS = {"iterations": 100, "depth": 6, "learning_rate": 0.1}
PLAN = Plan(seed=SEED)
_DATASET, _TEACHER_ROWS, _TEACHERS, _QUERIES = "rows", 50, 100, 200
_EVE, _DAY = dt.date(1970, 1, 1), dt.date(1970, 1, 2)
"""Days of the lake that stand for the reference's rows and for all others: no row names one."""
_SMALLEST = 1e-15
_ROW_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class TeamRows:
    """The team's rows as a lake, and what its columns are."""

    lake: Lake
    label: LabelColumn
    features: tuple[Feature, ...]


def study(
    output: pathlib.Path,
    table: str,
    *,
    label: str,
    features: Sequence[str] = (),
    epsilons: Sequence[float] = EPSILONS,
) -> Study:
    """Return the study of one table, whose rows lie in the output folder's lake.

    Raises:
        InvalidInputError: a file that cannot be read, a missing or unfit column, too few rows, or
            epsilons that are none or too many.
    """
    tried = tuple(sorted(set(epsilons)))
    if not tried or len(tried) > MOST_EPSILONS or not all(0.0 < one < math.inf for one in tried):
        rule = f"give 1 to {MOST_EPSILONS} finite numbers above 0"
        raise InvalidInputError("--epsilon", list(epsilons), rule)
    frame = _chosen(read_frame(table), label, features)
    digest = _digest(frame)
    rows = _into_lake(frame, output / f"lake-{digest[:12]}", label)
    identity = {
        "rows": digest,
        "label": label,
        "catboost": PARAMETERS,
        "pate": [_TEACHERS, _TEACHER_ROWS, _QUERIES],
        "plan": PLAN.model_dump_json(),
    }
    ladder = [(NONE, math.inf), *((name, one) for name in MECHANISMS for one in tried)]
    cells = [
        Cell(f"{name}-{one:g}", {**identity, "mechanism": name, "epsilon": one})
        for name, one in ladder
    ]
    return Study(
        "Ladder",
        f"Cost of protection: {label}",
        cells,
        compute,
        rows,
        lambda found: shown(found.rows, label),
    )


def _chosen(frame: pl.DataFrame, label: str, features: Sequence[str]) -> pl.DataFrame:
    """Return label and features of the rows that have a label, at most `MOST_ROWS`, drawn."""
    named = [label, *(features or (name for name in frame.columns if name not in {label, SPLIT}))]
    for name in named:
        if name not in frame.columns:
            rule = f"the table's columns are {', '.join(frame.columns)}"
            raise InvalidInputError("column", name, rule)
    if label in named[1:]:
        raise InvalidInputError("--feature", label, "the label is no feature")
    chosen = frame.select(list(dict.fromkeys(named))).drop_nulls(label)
    if chosen.height < FEWEST_ROWS:
        rule = f"a table has at least {FEWEST_ROWS} rows with a label"
        raise InvalidInputError("table", chosen.height, rule)
    if chosen.height <= MOST_ROWS:
        return chosen
    drawn = generator(SEED, "ladder", "draw").permutation(chosen.height)[:MOST_ROWS]
    return chosen[np.sort(drawn)]


def _digest(frame: pl.DataFrame) -> str:
    digest = hashlib.sha256(repr(frame.schema).encode())
    digest.update(frame.hash_rows(seed=SEED).to_numpy().tobytes())
    return digest.hexdigest()


def _into_lake(frame: pl.DataFrame, folder: pathlib.Path, label: str) -> TeamRows:
    """Write the thirds as two days, unless an earlier run did, and train the reference."""
    os.makedirs(folder, mode=0o700, exist_ok=True)  # it holds the rows  # noqa: PTH103
    lake = Lake(str(folder))
    thirds = np.array_split(generator(SEED, "ladder", "thirds").permutation(frame.height), 3)
    parts = ((_EVE, ((TRAIN, thirds[0]),)), (_DAY, ((TRAIN, thirds[1]), (HOLDOUT, thirds[2]))))
    for day, places in parts:
        if lake.exists(labels_folder(_DATASET, day)):
            continue
        of_day = pl.concat(
            frame[np.sort(place)].with_columns(pl.lit(split).alias(SPLIT))
            for split, place in places
        )
        write_labels(lake, _DATASET, day, of_day.to_arrow(), row_group_size=_ROW_GROUP)
    described = [describe_partition(lake, _DATASET, day, label) for day in (_EVE, _DAY)]
    classes = {each for described_label, _ in described for each in described_label.classes}
    whole = described[1][0].model_copy(update={"classes": tuple(sorted(classes, key=str))})
    rows = TeamRows(lake, whole, described[1][1])
    if not lake.exists(checkpoint_folder(NONE, _EVE)):
        _fit(rows, _job(rows, NONE, MultiStage(math.inf), _EVE), NONE)
    return rows


def compute(rows: TeamRows, cell: Cell) -> list[CellRow]:
    """Train and audit one model, and return its row."""
    name, epsilon = cell.parameters["mechanism"], cell.parameters["epsilon"]
    trained, held = (_data(rows, _DAY, split) for split in (TRAIN, HOLDOUT))
    method = _method(name, epsilon, trained.records)
    job = _job(rows, NONE if name == NONE else f"{name}-{epsilon:g}", method, _DAY)
    model = _fit(rows, job, name)
    if name != NONE:
        reference = read_checkpoint(rows.lake, NONE, _EVE)
        manifest = reference.manifest.model_dump() | {"model": job.recipe.model}
        write_checkpoint(rows.lake, manifest, reference.content)
    audit = run_audit(rows.lake, job.recipe.model, _DAY, plan=PLAN, executor=InProcess()).audit
    chances = _learner(rows).predict(model.fitted, held.features)
    own = chances[np.arange(held.records), held.labels]
    return [
        {
            "mechanism": name,
            "epsilon": None if math.isinf(epsilon) else epsilon,
            "delta": None if math.isinf(epsilon) else method.delta,
            "accuracy": float(np.mean(np.argmax(chances, axis=1) == held.labels)),
            "log_loss": float(-np.log(np.clip(own, _SMALLEST, 1.0)).mean()),
            "held_out": held.records,
            "most_frequent": float(np.bincount(held.labels).max() / held.records),
            "trained_on": trained.records,
            "epsilon_lower": audit.epsilon_lower,
            "epsilon_ceiling": audit.epsilon_ceiling,
            "verdict": audit.verdict,
            "reason": audit.reason,
        }
    ]


def _method(name: str, epsilon: float, records: int) -> Method:
    if name == NONE:
        return MultiStage(math.inf)
    queries = min(_QUERIES, records // 2)
    teachers = max(1, min(_TEACHERS, (records - queries) // _TEACHER_ROWS))
    return method_named(name, epsilon, teachers=teachers, queries=queries)


def _job(rows: TeamRows, model: str, method: Method, day: dt.date) -> TrainingJob:
    privacy = declaration(
        method,
        classes=len(rows.label.classes),
        unit="record",
        declared_by="privaudit ladder",
        declared_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    recipe = Recipe(model, _DATASET, rows.label, rows.features, method, privacy, PARAMETERS)
    return TrainingJob(recipe, day, SEED)


def _fit(rows: TeamRows, job: TrainingJob, name: str) -> TrainedModel:
    """Train the model of a job, and write it with its manifest."""
    method = job.recipe.mechanism or MultiStage(math.inf)
    random = generator(SEED, "ladder", name, f"{method.epsilon:g}", str(job.day))
    data, learner = _data(rows, job.day, TRAIN), _learner(rows)
    model = method.fit(data, learner, random=random, executor=InProcess())
    write_model(rows.lake, job, model)
    return model


def _data(rows: TeamRows, day: dt.date, split: str) -> TrainingData:
    recipe = Recipe(NONE, _DATASET, rows.label, rows.features)
    return read_training_data(rows.lake, recipe, day, split)


def _learner(rows: TeamRows) -> Learner:
    return Learner(rows.label, rows.features, SEED, dict(PARAMETERS))


def shown(models: pl.DataFrame, label: str) -> Shown:
    """Return what there is to show of all models."""
    rows = [
        {
            **row,
            "promise": "none" if row["epsilon"] is None else f"{row['epsilon']:g}",
            "error": binomial_error(row["accuracy"], row["held_out"]),
        }
        for row in models.to_dicts()
    ]
    table = table_of(
        "Accuracy, promise and proof",
        rows,
        {
            "mechanism": "{mechanism}",
            "promised": lambda row: guarantee(row["epsilon"], row["delta"]),
            "accuracy": "{accuracy:.1%}",
            "± error": "{error:.1%}",
            "log-loss": "{log_loss:.3f}",
            "proved at least": lambda row: down(row["epsilon_lower"]),
            "ceiling": lambda row: up(row["epsilon_ceiling"]),
            "verdict": "{verdict}",
        },
        text=("mechanism", "verdict"),
        wide=("log-loss", "ceiling"),
    )
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    drawing = chart(
        points_of(rows, "promise", {"accuracy": "{mechanism}"}, error={"accuracy": "error"}),
        f"Accuracy of {label} on held-out rows, by promised epsilon",
        x=Axis("promised epsilon", order=[*(f"{one:g}" for one in epsilons), "none"]),
        y=Axis("accuracy ± standard error"),
        colors=colored((*MECHANISMS, NONE), "blue green orange grey"),
    )
    sentences = [*_about(rows), *choice(rows), *_without_figures(rows)]
    return Shown(sentences, [table], data={"ladder": models}, figures={"ladder": drawing})


def _about(rows: Sequence[CellRow]) -> list[str]:
    first = rows[0]
    setting = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    return paragraphs(f"""
    Each model was trained on the same {first["trained_on"]:,} rows (CatBoost with {setting}; seed
    {SEED}). A reference model was trained on as many other rows. Accuracy and log-loss are those on
    {first["held_out"]:,} held-out rows. A model that always predicts their most frequent class has
    an accuracy of {first["most_frequent"]:.1%}.

    Promised is what the mechanism keeps for each label, if its code is right. Proved is what the
    audit of this one model proves at significance 0.05. It is a lower bound: a small one does not
    show that little leaks.
    """)


def choice(rows: Sequence[CellRow]) -> list[str]:
    """Return what trying all models costs: the price of a choice by private labels."""
    kept = [(row["epsilon"], row["delta"]) for row in rows if row["epsilon"] is not None]
    delta = math.fsum(each for _, each in kept)
    composed = up(composed_epsilon(kept, delta=delta), decimals=3)
    promised = f"{composed} at delta {delta:.2g}" if delta else composed
    return paragraphs(f"""
    A choice of mechanism and epsilon by these accuracies is itself a release about the labels. The
    {len(kept)} protected models that were tried promise together {promised} (dp_accounting): this
    is what the labels they were trained on lose if all of these models become known. Count it, not
    the epsilon of the chosen model alone. The model without protection promises nothing and is not
    in this sum, so its figures must stay with people who may read the labels.

    The accuracies are exact, and no promise covers the labels of the held-out rows. A choice among
    {len(rows)} models tells at most {math.log2(len(rows)):.1f} bits about all of these labels
    together. A choice on public or expired rows tells nothing about private ones.

    Do not release the models of this trial: their noise follows from a known seed. Train the chosen
    one anew, on other rows or with the cost of the choice added to its declaration.
    """)


def _without_figures(rows: Sequence[CellRow]) -> list[str]:
    """Return why audits came to no figure, once for each reason."""
    reasons = dict.fromkeys(row["reason"] for row in rows if row["epsilon_lower"] is None)
    return [f"No bound ({ABSENT}): {reason}" for reason in reasons]

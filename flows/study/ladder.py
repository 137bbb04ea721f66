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
from numpy.typing import NDArray

from flows.study.cells import Cell, CellRow, make_folder
from flows.study.ladder_shown import shown
from flows.study.runner import Study
from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
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

    Args:
        output: folder of the lake, the cells and what is shown.
        table: path or URI of a Parquet or CSV file, one row for each person or record.
        label: column of the label, of a few classes.
        features: columns that models may use; all others but the label where none are named.
        epsilons: what each mechanism keeps, each above 0 and finite.

    Raises:
        InvalidInputError: a file that cannot be read, a missing or unfit column, too few rows, or
            epsilons that are none or too many.
    """
    tried = tuple(sorted(set(epsilons)))
    if not tried or len(tried) > MOST_EPSILONS or not all(0.0 < one < math.inf for one in tried):
        rule = f"give 1 to {MOST_EPSILONS} finite numbers above 0"
        raise InvalidInputError("--epsilon", list(epsilons), rule)
    make_folder(output)
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
        lambda found: shown(found.rows, label=label, seed=SEED, parameters=PARAMETERS),
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
    method = _method(rows, name, epsilon)
    job = _job(rows, NONE if name == NONE else f"{name}-{epsilon:g}", method, _DAY)
    model = _fit(rows, job, name)
    if name != NONE:
        _copy_reference(rows, job.recipe.model)
    audit = run_audit(rows.lake, job.recipe.model, _DAY, plan=PLAN, executor=InProcess()).audit
    held = _data(rows, _DAY, HOLDOUT)
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
            "most_frequent": _most_frequent(rows, held.labels),
            "trained_on": _data(rows, _DAY, TRAIN).records,
            "epsilon_lower": audit.epsilon_lower,
            "epsilon_ceiling": audit.epsilon_ceiling,
            "verdict": audit.verdict,
            "reason": audit.reason,
        }
    ]


def _most_frequent(rows: TeamRows, labels: NDArray[np.int64]) -> float:
    """Return the share of the most frequent class: the accuracy of a model that knows nothing."""
    return float(np.bincount(labels, minlength=len(rows.label.classes)).max() / len(labels))


def _method(rows: TeamRows, name: str, epsilon: float) -> Method:
    if name == NONE:
        return MultiStage(math.inf)
    records = _data(rows, _DAY, TRAIN).records
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


def _copy_reference(rows: TeamRows, model: str) -> None:
    """Write the reference model under another model's name, as its earlier day."""
    reference = read_checkpoint(rows.lake, NONE, _EVE)
    write_checkpoint(
        rows.lake, reference.manifest.model_dump() | {"model": model}, reference.content
    )


def _data(rows: TeamRows, day: dt.date, split: str) -> TrainingData:
    recipe = Recipe(NONE, _DATASET, rows.label, rows.features)
    return read_training_data(rows.lake, recipe, day, split)


def _learner(rows: TeamRows) -> Learner:
    return Learner(rows.label, rows.features, SEED, dict(PARAMETERS))

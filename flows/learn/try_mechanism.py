"""One model, one day, one mechanism: into the lake, with the manifest that it truly has."""

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.settings import Settings
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import RandomizedResponseWithPrior
from workers.executors import on_ray
from workers.labels.columns import SPLIT
from workers.labels.shards import list_shards
from workers.lake.layout import Lake, check_name, labels_folder
from workers.lake.manifest import Feature, Label, LabelColumn
from workers.training import (
    TAKES_PRIOR,
    Method,
    Recipe,
    Trained,
    TrainingJob,
    declaration,
    method_named,
    train,
)

_MOST_CLASSES = 100


@dataclass(frozen=True, slots=True)
class Trial:
    """Request to `privaudit train`; without a mechanism, labels stay as they are."""

    model: str
    day: dt.date
    dataset: str
    label: str
    mechanism: str | None
    epsilon: float
    stages: int
    teachers: int
    queries: int
    prior: tuple[float, ...] | None
    unit: str
    parameters: dict[str, Any]
    seed: int


def train_trial(settings: Settings, trial: Trial) -> list[str]:
    """Train the model and write its checkpoint; return what was done, a sentence each.

    Raises:
        InvalidInputError: the mechanism, its parameters or the partition's columns do not fit.
        NotEvaluableError: the labels are missing or damaged, or the model's name is refused.
    """
    check_name("model", trial.model)
    lake = Lake(settings.lake)
    label, features = describe_partition(lake, trial.dataset, trial.day, trial.label)
    method = _method(trial, label)
    privacy = None
    if method is not None:
        privacy = declaration(
            method,
            classes=len(label.classes),
            unit=trial.unit,
            declared_by="privaudit train",
            declared_at=dt.datetime.now(dt.UTC),
        )
    recipe = Recipe(trial.model, trial.dataset, label, features, method, privacy, trial.parameters)
    job = TrainingJob(recipe, trial.day, trial.seed)
    if trial.mechanism is not None and trial.mechanism.startswith("pate"):
        with on_ray(settings.ray.address, settings.ray.cpus) as executor:
            trained = train(lake, job, executor)
    else:
        trained = train(lake, job)
    return _sentences(trial, label, trained, privacy)


def describe_partition(
    lake: Lake, dataset: str, day: dt.date, column: str
) -> tuple[LabelColumn, tuple[Feature, ...]]:
    """Return the label with its classes in order, and every other column but `split` as a feature.

    Raises:
        NotEvaluableError: the day's labels are missing or damaged.
        InvalidInputError: there is no such column, or it holds no few classes, or a column is
            neither a number nor text.
    """
    folder = labels_folder(dataset, day)
    files = sorted({shard.file for shard in list_shards(lake, dataset, day)})
    schema: pa.Schema | None = None
    classes: set[Label] = set()
    for name in files:
        file = pq.ParquetFile(lake.files.open_input_file(f"{folder}/{name}"))
        schema = schema or file.schema_arrow
        if column not in file.schema_arrow.names:
            rule = f"the columns of {dataset} are {', '.join(file.schema_arrow.names)}"
            raise InvalidInputError("--label", column, rule)
        for group in range(file.num_row_groups):
            values = file.read_row_group(group, columns=[column])[column]
            classes |= {value for value in values.unique().to_pylist() if value is not None}
    if not 2 <= len(classes) <= _MOST_CLASSES or any(isinstance(c, float) for c in classes):
        rule = (
            f"a label has 2 to {_MOST_CLASSES} classes, and this column has {len(classes)} values"
        )
        raise InvalidInputError("--label", column, rule)
    fields = [field for field in schema or () if field.name not in {column, SPLIT}]
    return (
        LabelColumn(column=column, classes=tuple(sorted(classes, key=str)), state="secret"),
        tuple(_feature(field) for field in fields),
    )


def _feature(field: pa.Field) -> Feature:
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return Feature(name=field.name, kind="numeric")
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_text(kind) for is_text in text):
        return Feature(name=field.name, kind="categorical")
    rule = f"it is {field.type}: a feature is a number or text"
    raise InvalidInputError("feature", field.name, rule)


def _method(trial: Trial, label: LabelColumn) -> Method | None:
    if trial.prior is not None and trial.mechanism is None:
        rule = f"there is no mechanism that takes it: name {TAKES_PRIOR} with --mechanism"
        raise InvalidInputError("--prior", trial.prior, rule)
    if trial.mechanism is None:
        if not math.isinf(trial.epsilon):
            rule = "there is no mechanism that could keep it: name one with --mechanism"
            raise InvalidInputError("--epsilon", trial.epsilon, rule)
        return None
    method = method_named(
        trial.mechanism,
        trial.epsilon,
        stages=trial.stages,
        teachers=trial.teachers,
        queries=trial.queries,
        prior=trial.prior,
    )
    if trial.prior is not None and len(trial.prior) != len(label.classes):
        classes = ", ".join(str(each) for each in label.classes)
        rule = f"{label.column} has {len(label.classes)} classes, in this order: {classes}"
        raise InvalidInputError("--prior", trial.prior, rule)
    return method


def _sentences(
    trial: Trial, label: LabelColumn, trained: Trained, privacy: dict[str, Any] | None
) -> list[str]:
    declared = "declares nothing: its labels stayed as they are"
    if privacy is not None:
        delta = f" at delta {privacy['delta']:g}" if privacy["delta"] else ""
        declared = (
            f"declares epsilon {privacy['epsilon']:g}{delta} by {privacy['mechanism']['name']}"
        )
    what = f"trained on {trained.records:,} records (seed {trial.seed})"
    lines = [f"{trial.model} {trial.day}: {what}; the manifest {declared}."]
    if trial.prior is not None:
        lines += _about_prior(trial.prior, label, trial.epsilon)
    if trained.data_dependent is not None:
        other = trained.data_dependent
        lines.append(f"Epsilon {other.epsilon:.3g} at delta {other.delta:g} is {other.label}.")
    lines.append(f"Audit it: privaudit run --model {trial.model} --day {trial.day}")
    return lines


def _about_prior(prior: tuple[float, ...], label: LabelColumn, epsilon: float) -> list[str]:
    """Return the prior that was taken, and a warning where it leaves the labels no say."""
    shares = ", ".join(
        f"{each} {share:g}" for each, share in zip(label.classes, prior, strict=True)
    )
    whence = (
        f"The prior came from outside ({shares}) and cost nothing: had it been computed from these "
        "labels, the guarantee would be void."
    )
    response = RandomizedResponseWithPrior(epsilon, len(prior))
    if int(response.top(np.array([prior]))[0]) > 1:
        return [whence]
    blunt = (
        f"At epsilon {epsilon:g} this prior gives every record the same private label: the "
        "model learns nothing, and leaks nothing."
    )
    return [whence, blunt]

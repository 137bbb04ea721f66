"""One model, one day, one mechanism: into the lake, with the manifest that it truly has."""

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.settings import Settings
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import RandomizedResponseWithPrior
from workers.executors import on_ray
from workers.lake.layout import Lake, check_name
from workers.lake.manifest import LabelColumn
from workers.training.jobs import (
    Recipe,
    TrainingJob,
    declaration,
    describe_partition,
    train,
)
from workers.training.methods import TAKES_PRIOR, Method, method_named


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
            records = train(lake, job, executor)
    else:
        records = train(lake, job)
    return _sentences(trial, label, records, privacy)


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
    trial: Trial, label: LabelColumn, records: int, privacy: dict[str, Any] | None
) -> list[str]:
    declared = "declares nothing: its labels stayed as they are"
    if privacy is not None:
        delta = f" at delta {privacy['delta']:g}" if privacy["delta"] else ""
        declared = (
            f"declares epsilon {privacy['epsilon']:g}{delta} by {privacy['mechanism']['name']}"
        )
    what = f"trained on {records:,} records (seed {trial.seed})"
    lines = [f"{trial.model} {trial.day}: {what}; the manifest {declared}."]
    if trial.prior is not None:
        lines += _about_prior(trial.prior, label, trial.epsilon)
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

"""Trains daily CatBoost models and writes their checkpoints, for the demo, tests and studies."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import catboost
import numpy as np
import polars as pl

from privcore.attacks import generator
from privcore.mechanisms import RandomizedResponse
from workers.checkpoints import write_checkpoint
from workers.labels import list_shards, read_shard
from workers.lake import Lake
from workers.manifest import Feature, LabelColumn


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is trained every day.

    Attributes:
        model: its name in the lake.
        mechanism: how labels are privatised before training; None leaves them as they are.
        privacy: the manifest's declaration, or None. A recipe may declare what it does not do:
            that is what an audit is for.
        parameters: of CatBoost.
    """

    model: str
    dataset: str
    label: LabelColumn
    features: tuple[Feature, ...]
    mechanism: RandomizedResponse | None = None
    privacy: dict[str, Any] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One model on one day."""

    recipe: Recipe
    day: dt.date
    seed: int


def train(lake: Lake, job: TrainingJob) -> TrainingJob:
    """Train on the day's `train` rows and write the checkpoint; returns the job when done."""
    recipe, day = job.recipe, job.day
    shards = [
        read_shard(lake, shard, label=recipe.label, features=recipe.features)
        for shard in list_shards(lake, recipe.dataset, day)
    ]
    features = pl.concat([rows.features.filter(rows.train) for rows in shards])
    labels = np.concatenate([rows.labels[rows.train] for rows in shards])
    if recipe.mechanism is not None:
        random = generator(job.seed, recipe.model, str(day), "mechanism")
        labels = recipe.mechanism.sample(labels, random)
    classes = np.array(recipe.label.classes)
    categorical = [f.name for f in recipe.features if f.kind == "categorical"]
    model = catboost.CatBoostClassifier(
        random_seed=job.seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
        **recipe.parameters,
    )
    model.fit(catboost.Pool(features, label=classes[labels], cat_features=categorical))
    write_checkpoint(
        lake,
        {
            "model": recipe.model,
            "day": day,
            "dataset": recipe.dataset,
            "label": recipe.label.model_dump(),
            "features": [feature.model_dump() for feature in recipe.features],
            "trained_on": {"first": day, "last": day, "split": "train"},
            "privacy": recipe.privacy,
        },
        model._serialize_model(),  # noqa: SLF001  # CatBoost has no public way to bytes
    )
    return job

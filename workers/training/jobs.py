"""One model on one day: read the training rows, train, write the checkpoint."""

import datetime as dt
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import generator
from workers.labels.columns import SPLIT, batches_of, check_columns
from workers.labels.parquet import read_footer
from workers.labels.shards import Piece, find_partition
from workers.lake import limits
from workers.lake.checkpoints import write_checkpoint
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.training.methods import Learner, MultiStage, TrainingData


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe for one model's training, every day.

    Attributes:
        mechanism: how labels are made private; None leaves them as they are.
        privacy: the manifest's declaration, or None. A recipe may declare what it does not do:
            that is what an audit is for.
    """

    model: str
    dataset: str
    label: LabelColumn
    features: tuple[Feature, ...]
    mechanism: MultiStage | None = None
    privacy: dict[str, Any] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One model on one day."""

    recipe: Recipe
    day: dt.date
    seed: int


def train(lake: Lake, job: TrainingJob) -> int:
    """Train on the day's `train` rows, write the checkpoint and return how many records there were.

    All that is random comes from the job's seed, model and day.
    """
    recipe, day = job.recipe, job.day
    data = read_training_data(lake, recipe, day)
    learner = Learner(recipe.label, recipe.features, job.seed, recipe.parameters)
    model = (recipe.mechanism or MultiStage(math.inf)).fit(
        data, learner, random=generator(job.seed, recipe.model, str(day), "mechanism")
    )
    write_checkpoint(
        lake,
        {
            "model": recipe.model,
            "day": day,
            "dataset": recipe.dataset,
            "label": recipe.label.model_dump(),
            "features": [feature.model_dump() for feature in recipe.features],
            "trained_on": {"first": day, "last": day, "split": "train"},
            "output_correction": model.output_correction,
            "privacy": recipe.privacy,
        },
        model.fitted._serialize_model(),  # noqa: SLF001  # CatBoost has no public way to bytes
    )
    return data.records


def read_training_data(lake: Lake, recipe: Recipe, day: dt.date) -> TrainingData:
    """Return the day's `train` rows.

    Raises:
        NotEvaluableError: the labels are missing, bad or damaged.
    """
    features: list[pl.DataFrame] = []
    labels: list[NDArray[np.int64]] = []
    names = (recipe.label.column, SPLIT, *(feature.name for feature in recipe.features))
    partition, columns = find_partition(lake, recipe.dataset, day), list(dict.fromkeys(names))
    for file in partition.files:
        path = partition.path(file.name)
        footer = read_footer(lake, path, columns)
        check_columns(footer.names, path, [(name, "what is asked for") for name in columns])
        piece, rows = Piece(file.name), limits.SHARD_ROWS
        for batch in batches_of(lake, partition, piece, footer, columns, rows=rows):
            found, bad = batch.labels(recipe.label)
            bad.check(0)
            chosen = batch.arms()[0]
            read = pl.DataFrame([batch.feature(feature) for feature in recipe.features])
            features.append(read.filter(chosen))
            labels.append(found[chosen])
    return TrainingData(pl.concat(features), np.concatenate(labels))

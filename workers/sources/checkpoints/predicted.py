"""Predictions of a checkpoint for a batch of labelled rows, each computed once."""

import functools
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.labels.columns import Batch
from workers.lake.checkpoints import Checkpoint, as_inputs, load, predict
from workers.lake.formats.contract import LoadedModel
from workers.sources.checkpoints.label_places import LabelPlace
from workers.sources.source import SharedScores


def predicted(
    checkpoint: Checkpoint,
    batch: Batch,
    shared: SharedScores,
    place: LabelPlace,
    *,
    instead: tuple[str, str] | None = None,
) -> NDArray[np.float64]:
    """Predict a batch; checkpoints of the same features share inputs, and games a checkpoint.

    Args:
        checkpoint: the model.
        batch: the records; those of another day have equal probabilities of all classes.
        shared: what was computed of them already, and which of them are asked for.
        place: where they lie.
        instead: a categorical feature, and the value that every record has of it instead.
    """
    asked = (checkpoint, instead, place.reading)
    if asked not in shared.made:
        today = place.today(batch)
        if shared.asked is not None:
            today = today & shared.asked
        scored = _scored(checkpoint, batch, shared, place, today, instead)
        shared.made[asked] = scored if today.all() else _among_others(scored, today)
    found: NDArray[np.float64] = shared.made[asked]
    return found


def _scored(
    checkpoint: Checkpoint,
    batch: Batch,
    shared: SharedScores,
    place: LabelPlace,
    today: NDArray[np.bool_],
    instead: tuple[str, str] | None,
) -> NDArray[np.float64]:
    """Return what a model says of the day's rows alone, shape (rows of the day, classes)."""
    manifest = checkpoint.manifest
    if not today.any():
        return np.empty((0, len(manifest.label.classes)))
    model, inputs = _inputs(checkpoint, batch, shared, place, today, instead)
    with shared.stage("predict"):
        return predict(model, manifest, inputs, threads=1)


def _inputs(
    checkpoint: Checkpoint,
    batch: Batch,
    shared: SharedScores,
    place: LabelPlace,
    today: NDArray[np.bool_],
    instead: tuple[str, str] | None,
) -> tuple[LoadedModel, Any]:
    """Return a model, and the day's rows as it takes them."""
    manifest, made = checkpoint.manifest, shared.made
    model = _loaded(checkpoint)
    reads = (model.categories, model.takes)
    features = (manifest.format, manifest.features, reads, instead, place.reading)
    with shared.stage("pool"):
        if features not in made:
            frame = batch.features(manifest, stored=place.stored)
            frame = _instead(frame if today.all() else frame.filter(today), instead)
            made[features] = as_inputs(model, manifest, frame)
    return model, made[features]


def _instead(frame: pl.DataFrame, instead: tuple[str, str] | None) -> pl.DataFrame:
    """Return features with one of them set to a value."""
    if instead is None or instead[0] not in frame.columns:
        return frame
    name, value = instead
    kind = frame.schema[name]
    told = pl.lit(value == "true") if kind == pl.Boolean else pl.lit(value).cast(kind)
    return frame.with_columns(told.alias(name))


def _among_others(scored: NDArray[np.float64], today: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the day's probabilities at their rows, and equal ones at the rows of other days."""
    every = np.full((today.size, scored.shape[1]), 1.0 / scored.shape[1])
    every[today] = scored
    return every


@functools.lru_cache(maxsize=32)
def _loaded(checkpoint: Checkpoint) -> LoadedModel:
    return load(checkpoint)

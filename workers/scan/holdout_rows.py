"""The holdout rows of a batch as a sketch, by which nights know that a holdout comes again."""

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privcore.attacks import HoldoutSketch, hashed_numbers, hashed_words
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.sources.source import Source


def holdout_rows(source: Source, batch: Batch) -> HoldoutSketch:
    """Return the sketch of a batch's holdout rows by what tells them apart on any night.

    No label is read, and none decides which rows are in it: a row whose label cannot be read is,
    and so is one that training's sampling by label would have left out. A model's predictions are
    not in it either, since they change from night to night.

    It is of no rows where the source has no column that tells rows apart, or one that cannot be
    read; and beside decoys, which are compared with no holdout: their coin is a new one every
    night, so those nights are independent.
    """
    columns = source.recognised_by(batch) if source.decoys is None else ()
    if not columns:
        return HoldoutSketch.zero()
    rows = np.flatnonzero(source.arms(batch)[1] & source.present(batch))
    names = list(dict.fromkeys(column.name for column in columns))
    held = Batch(batch.table.select(names).take(rows), batch.path, batch.place)
    try:
        return HoldoutSketch.of([_hashed(held, column) for column in columns])
    except NotEvaluableError:  # the models do without it, or refuse it in their own words
        return HoldoutSketch.zero()


def _hashed(batch: Batch, column: Feature) -> NDArray[np.uint64]:
    if column.kind == "numeric":
        numbers = batch.feature(column, numbers=pl.Float64).fill_null(float("nan"))
        return hashed_numbers(numbers.to_numpy(), column.name)
    words = batch.feature(column).rechunk().to_arrow().cast(pa.large_string())
    _, borders, letters = words.buffers()
    placed = np.frombuffer(borders, dtype=np.int64)[words.offset :][: len(words) + 1]
    bytes_ = np.frombuffer(letters or b"", dtype=np.uint8)
    return hashed_words(bytes_, placed, column.name)

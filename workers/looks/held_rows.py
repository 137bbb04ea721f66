"""A sketch of the holdout's rows, by which nights know whether it comes again."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privcore.attacks import HoldoutSketch, hashed_numbers, hashed_words
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.looks.look import Look, Looks, Seen


@dataclass(frozen=True, slots=True)
class HeldRows(Look):
    """Sketch of the rows that were held out."""

    sketch: HoldoutSketch

    @classmethod
    def see(cls, seen: Seen) -> "HeldRows | None":
        """Return the sketch of a batch's holdout rows by what tells them apart on any night.

        No label is read, and none decides which rows are in it (`Players.held`). A model's
        predictions are not in it either, since they change from night to night. Numbers are of 32
        bits, as models take them.

        There is none where the source has no column that tells rows apart, or one that cannot be
        read.
        """
        source, batch, rows = seen.source, seen.batch, seen.playing.held
        columns = source.recognised_by(batch)
        if not (columns and rows.size):
            return None
        if not source.context:  # nothing else reads these columns, so other rows are not converted
            names = list(dict.fromkeys(column.name for column in columns))
            batch = Batch(batch.table.select(names).take(rows), batch.path, batch.place)
            rows = np.arange(rows.size)
        try:
            return cls(HoldoutSketch.of([_hashed(batch, column, rows) for column in columns]))
        except NotEvaluableError:  # the models do without it, or refuse it in their own words
            return None


def holdout_sketch(looks: Looks) -> str | None:
    """Return the sketch as it is stored; None where nothing tells rows from others."""
    held = HeldRows.among(looks)
    return None if held is None else held.sketch.text()


def _hashed(batch: Batch, column: Feature, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    values = batch.feature(column)  # as the student reads it: converted once
    if column.kind == "numeric":
        return hashed_numbers(values.to_numpy()[rows].astype(np.float64), column.name)
    words = values.gather(rows).rechunk().to_arrow().cast(pa.large_string())
    _, borders, letters = words.buffers()
    placed = np.frombuffer(borders, dtype=np.int64)[words.offset :][: len(words) + 1]
    return hashed_words(np.frombuffer(letters or b"", dtype=np.uint8), placed, column.name)

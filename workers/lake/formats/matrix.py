"""Features as one matrix of numbers, categories as the codes that training gave them."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.lake.formats.contract import Categories, InputsRefusedError
from workers.lake.manifest import Manifest


def as_matrix(
    manifest: Manifest, frame: pl.DataFrame, categories: Categories, dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return features as shape (records, features), NaN where a value is missing.

    A category that the model names none of is missing, as in the frameworks' own tables.

    Raises:
        InputsRefusedError: a category is no code, and the model does not say which code it has.
    """
    matrix = np.empty((frame.height, len(manifest.features)), dtype=dtype)
    for place, feature in enumerate(manifest.features):
        column = frame[feature.name]
        if feature.kind == "categorical":
            column = _codes(column, categories[place])
        matrix[:, place] = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return matrix


def _codes(column: pl.Series, known: tuple[str, ...] | None) -> pl.Series:
    if known is not None:
        codes = range(len(known))
        return column.replace_strict(list(known), codes, default=None, return_dtype=pl.Float64)
    try:
        return column.cast(pl.Int64)
    except pl.exceptions.InvalidOperationError:
        raise InputsRefusedError(
            f"{column.name!r} holds text, and the model's file does not say which codes training "
            "gave its categories: write the codes, or train on a table whose columns are "
            "categorical"
        ) from None

"""Features as one matrix of numbers, categories as the codes that training gave them.

A framework's file keeps categories as values: text, numbers, or true and false. A column is
compared by value, so that 10, 10.0 and a decimal 10.00 are one category, and true is 1. Text stands
for a number only where the whole list leaves no doubt.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.lake.formats.contract import (
    MISSING_WORDS,
    WRITTEN_MISSING,
    Categories,
    Category,
    InputsRefusedError,
    written_otherwise,
)
from workers.lake.manifest import Manifest

_TRUTH = {"True": True, "true": True, "False": False, "false": False}


def as_matrix(
    manifest: Manifest, frame: pl.DataFrame, categories: Categories, dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return features as shape (records, features), NaN where a value is missing.

    A category that the model names none of is missing, as in the frameworks' own tables.

    Raises:
        InputsRefusedError: the model's file does not say which code a column's values have.
    """
    matrix = np.empty((frame.height, len(manifest.features)), dtype=dtype)
    for place, feature in enumerate(manifest.features):
        column = frame[feature.name]
        if feature.kind == "categorical":
            column = _codes(column, categories[place])
        matrix[:, place] = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return matrix


def _codes(column: pl.Series, known: tuple[tuple[Category, int], ...] | None) -> pl.Series:
    text = column.dtype == pl.String
    if not (text or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputsRefusedError(written_otherwise(column, "text or numbers"))
    if known is None:
        if text and column.null_count() < len(column):
            raise InputsRefusedError(
                f"{column.name!r} holds text, and the model's file does not say which codes "
                "training gave its categories: write the codes, or train on a table whose columns "
                "are categorical"
            )
        return column
    _check_missing(column, known)
    codes = dict(known)
    if text and all(isinstance(value, str) for value in codes):
        return column.replace_strict(
            list(codes), list(codes.values()), default=None, return_dtype=pl.Float64
        )
    return _by_value(column, codes)


def _by_value(column: pl.Series, codes: Mapping[Category, int]) -> pl.Series:
    """Return codes of a column of numbers, or of text where the file lists numbers."""
    listed = ", ".join(map(repr, list(codes)[:3]))
    refused = InputsRefusedError(written_otherwise(column, f"categories like {listed}"))
    told = [value for value in codes if value not in MISSING_WORDS or _number(value) is not None]
    numbers = {_number(value): codes[value] for value in told}
    if None in numbers or len(numbers) < len(told):
        raise refused
    values = column.unique().drop_nulls()
    words = values.to_list()
    if column.dtype == pl.String:
        # Words of truth are no numbers: "True" is not 1.0 in a list of 1.0 and 2.0.
        truth = all(isinstance(value, bool) for value in numbers)
        read = [_number(word) for word in words]
        if any(one is None or isinstance(one, bool) is not truth for one in read):
            raise refused
    else:
        read = [float(word) if column.dtype.is_decimal() else word for word in words]
    found = [None if one is None else numbers.get(one) for one in read]
    coded = all(value == code for value, code in codes.items())
    # Codes, of which the column holds not one; or numbers that LightGBM would cut off.
    if coded and read and (set(found) == {None} or any(one is None or one % 1 for one in read)):
        raise refused
    return column.replace_strict(values, found, default=None, return_dtype=pl.Float64)


def _number(value: Category) -> float | bool | None:
    """Return a category as a number; None of text that Python writes no number, or truth, as."""
    if not isinstance(value, str):
        return value
    if value in _TRUTH:
        return _TRUTH[value]
    for kind in (int, float):
        with contextlib.suppress(ValueError, OverflowError):
            if str(number := kind(value)) == value:
                return number
    return None


def _check_missing(column: pl.Series, known: tuple[tuple[Category, int], ...]) -> None:
    """Refuse missing values of a column that training had as a word, or as a number."""
    told = [value for value, _ in known if str(value) in MISSING_WORDS]
    if not (told and column.null_count()):
        return
    held = set(column.unique().cast(pl.String)) - set(WRITTEN_MISSING)
    # A word that stands beside missing values was another category in training as well.
    if others := [value for value in told if str(value) not in held]:
        raise InputsRefusedError(
            f"{column.name!r} has missing values, and training may have had them as "
            f"{others[0]!r}: write in their place what training had"
        )

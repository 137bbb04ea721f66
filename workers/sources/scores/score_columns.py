"""Columns of a score table made sense of: probabilities of any form."""

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars._typing import PolarsDataType
from scipy.special import expit, softmax

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch

_ROUNDED = 1e-6
_ADD_UP = 0.02
"""Amount by which a record's probabilities may miss one: they were rounded, or kept in 16 bits."""


_TO_COMPARE = 100
"""Records that two models agree on by no accident."""
_SAME = 1e-6
"""Models whose probabilities differ by no more are one model."""
_DIGITS = (4, 3, 2)
"""To which probabilities are rounded."""
_FIRST = 1_000
_HALF = 2.0**-11
"""The coarsest step of 16 bits, below one."""


def read_probabilities(
    batch: Batch,
    columns: tuple[str, ...],
    *,
    role: str,
    classes: int,
    scale: str,
    used: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return what columns hold as probabilities, shape (records, classes), whatever their form.

    Rows that are not `used`, and rows without a value, have equal probabilities of all classes.
    """
    parts = [_numbers(batch, name, classes, role) for name in columns]
    values: NDArray[np.float64] = np.concatenate(parts, axis=1)
    if values.shape[1] not in {classes, 1} or (values.shape[1] == 1 and classes > 2):
        raise _no_probability(
            f"scores.{role} names one column of numbers for {classes} classes: name one column "
            "per class, or a column of lists."
        )
    where = f"{batch.path} holds in {', '.join(columns)}"
    used = np.asarray(used & ~_any_of(np.isnan(values)))
    if not np.isfinite(values[used]).all():
        raise _no_probability(f"{where} an infinite value: write finite probabilities.")
    if scale == "log_odds":
        values = _from_log_odds(values)
    elif used.any():
        _check_probabilities(values[used], where)
        values = np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64)
    if values.shape[1] == 1:
        second = np.where(used, values[:, 0], 0.5)
        return np.column_stack([1.0 - second, second])
    values = np.where(used[:, None], values, 1.0 / classes)
    return np.ascontiguousarray(values / values.sum(axis=1, keepdims=True))


def read_numbers(batch: Batch, column: str, *, said: str) -> NDArray[np.float64]:
    """Return a column of numbers, shape (records,), NaN where there is none or an infinite one."""
    found = batch.column(column)
    if not _numeric(found.dtype):
        raise _no_probability(
            f"{batch.path} stores {column!r} as {found.dtype}: {said} names a column of numbers."
        )
    values = _floats(found)
    return np.where(np.isfinite(values), values, np.nan)


def clearly_apart(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> bool:
    """Return whether one of the first records differs by more than `same_model` forgives."""
    apart = np.abs(target[:_FIRST] - proxy[:_FIRST])
    return bool((apart > 0.5 * 10.0 ** -min(_DIGITS) + _SAME).any())


def same_model(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> bool:
    """Return whether two columns of probabilities are one model's, one of them perhaps rounded.

    They are where they differ by no more than 1e-6 in any of at least 100 records. Where the
    proxy's are rounded to r, they are if the target's, rounded so, are the proxy's in all of at
    least 10^7 r records: of another model, one that moved by 1e-6 or more, none of these would
    have crossed a border of rounding with a chance of about e^-10.
    """
    records = len(target)
    if records < _TO_COMPARE:
        return False
    apart = float(np.abs(target - proxy).max())
    if apart <= _SAME:
        return True
    for digits in _DIGITS:
        step = 10.0**-digits
        if apart <= step / 2.0 + _SAME and records * _SAME >= 10.0 * step:
            rounded = np.abs(np.round(proxy, digits) - proxy) <= _SAME
            if rounded.all():
                return True
    # Of 16 bits. The first class of two was not written, it is what the second left.
    one, other = target[:, 1:].astype(np.float16), proxy[:, 1:].astype(np.float16)
    return records * _SAME >= 10.0 * _HALF and bool((one == other).all())


def missing(column: pl.Series) -> NDArray[np.bool_]:
    """Return whether each value is missing, or NaN; or any value of a list."""
    missing, kind = column.is_null(), column.dtype
    if kind.is_float():
        missing |= column.is_nan().fill_null(value=True)
    elif isinstance(kind, pl.List | pl.Array) and _numeric(kind.inner):
        lists = column.cast(pl.List(pl.Float64))
        values = lists.explode()
        if values.null_count() or values.is_nan().any():
            within = (pl.element().is_null() | pl.element().is_nan()).any()
            missing |= lists.list.eval(within).list.first().fill_null(value=True)
    return np.asarray(missing.to_numpy(), dtype=np.bool_)


def _numbers(batch: Batch, name: str, classes: int, role: str) -> NDArray[np.float64]:
    """Return a column as shape (rows, 1), or a column of lists as shape (rows, classes)."""
    column = batch.column(name)
    kind = column.dtype
    if not _numeric(kind.inner if isinstance(kind, pl.List | pl.Array) else kind):
        raise _no_probability(
            f"{batch.path} stores {name!r} as {kind}: scores.{role} names columns of "
            "probabilities, which are numbers."
        )
    if not isinstance(kind, pl.List | pl.Array):
        return _floats(column).reshape(-1, 1)
    whole = column.cast(pl.List(pl.Float64))
    if (whole.list.len() != classes).any():
        raise _no_probability(
            f"{batch.path} holds in {name!r} a list that has not {classes} values, as many as "
            "there are classes: correct scores.classes, or the lists."
        )
    if whole.null_count():
        empty = pl.Series([[float("nan")] * classes], dtype=whole.dtype)
        whole = pl.select(pl.when(whole.is_null()).then(empty).otherwise(whole)).to_series()
    return _floats(whole.explode()).reshape(-1, classes)


def _numeric(kind: PolarsDataType) -> bool:
    return kind.is_numeric() or kind.is_decimal()


def _any_of(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether any column holds, row by row; of one column it is no sum over an axis."""
    return values[:, 0] if values.shape[1] == 1 else np.asarray(values.any(axis=1))


def _floats(column: pl.Series) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none."""
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _from_log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = expit(values) if values.shape[1] == 1 else softmax(values, axis=1)
    return np.asarray(found, dtype=np.float64)


def _check_probabilities(values: NDArray[np.float64], where: str) -> None:
    """Refuse values that are no probabilities, with a guess at what they are."""
    least, greatest = float(values.min()), float(values.max())
    if least < -_ROUNDED or greatest > 1.0 + _ROUNDED:
        percent = least >= 0.0 and 2.0 < greatest <= 100.0
        advice = (
            "if they are percentages, divide by 100"
            if percent
            else 'if they are log-odds, set scores.scale = "log_odds"'
        )
        raise _no_probability(
            f"{where} values from {least:g} to {greatest:g}, which are no probabilities: {advice}."
        )
    if values.shape[1] > 1:
        sums = values @ np.ones(values.shape[1])
        # Rounded to two digits, or kept in 16 bits, every class may miss by so much.
        allowed = max(_ADD_UP, 0.006 * values.shape[1])
        worst = float(sums[np.argmax(np.abs(sums - 1.0))])
        if abs(worst - 1.0) > allowed:
            raise _no_probability(
                f"{where} probabilities that add up to {worst:.4g} for one record: name the "
                "columns of all classes, and nothing else."
            )


def _no_probability(sentence: str) -> NotEvaluableError:
    return NotEvaluableError(Reason.PROBABILITIES_INVALID, sentence)

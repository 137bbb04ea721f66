"""Rule of the rows that were held out of training: a column's word, or a hash of the record."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mmh3
import numpy as np
import polars as pl
from numpy.typing import NDArray

# No part may match blanks that the next may match, too: 300,000 of them would take minutes.
_BUCKET = re.compile(r"bucket\((?P<column>[^,()]+),\s*(?P<count>\d+)\s*\)\s*=\s*(?P<value>\d+)")
_VALUE = re.compile(r"(?P<column>[^=<>!']+)=\s*(?:'(?P<text>[^']*)'|(?P<plain>[\w.+-]+))")
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class HoldoutRule:
    """Rule that reads a row's arm.

    Attributes:
        column: that is looked at.
        value: of the rows that were held out; None where `column` says `train` or `holdout`.
        buckets: where not 0, their number: `value` is a bucket by Iceberg's hash of the column.
    """

    column: str
    value: str | None = None
    buckets: int = 0

    def arms(self, column: pl.Series) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each row was trained on, and whether it was held out; null is neither.

        Raises:
            TypeError: the column is of a kind that has no single form as text, or no hash.
        """
        there = column.is_not_null().to_numpy()
        if self.buckets:
            held = bucket(column, self.buckets) == int(self.value or 0)
            return there & ~held, there & held
        if not _is_plain(column.dtype):
            raise TypeError(str(column.dtype))
        words = column.cast(pl.Int8) if column.dtype == pl.Boolean else column
        if not isinstance(words.dtype, pl.Categorical):  # whose words compare by their codes
            words = words.cast(pl.String)
        if self.value is None:
            train, holdout = ((words == word).fill_null(value=False).to_numpy()
                              for word in ("train", "holdout"))  # fmt: skip
            return train, holdout
        boolean = {"true": "1", "false": "0"} if column.dtype == pl.Boolean else {}
        value = boolean.get(self.value.lower(), self.value)
        held = (words == value).fill_null(value=False).to_numpy()
        return there & ~held, there & held


def parse_holdout(text: str) -> HoldoutRule:
    """Return the rule that `holdout` states.

    Raises:
        ValueError: it states none, or a bucket that there is not.
    """
    text = text.strip()
    if found := _BUCKET.fullmatch(text):
        count, value = int(found["count"]), int(found["value"])
        if not 2 <= count <= _MOST or value >= count:
            raise ValueError(
                f"{text!r} would hold out no rows or all rows. Use bucket(column, N) = k with "
                f"2 <= N <= {_MOST:,} and 0 <= k < N."
            )
        return HoldoutRule(found["column"].strip().strip("\"'"), str(value), count)
    if found := _VALUE.fullmatch(text):
        word = found["plain"] if found["text"] is None else found["text"]
        return HoldoutRule(found["column"].strip().strip('"'), word)
    raise ValueError(f"{text!r} is not a rule: write column = 'value', or bucket(column, 5) = 0")


def bucket(column: pl.Series, count: int) -> NDArray[np.int64]:
    """Return each value's bucket by Iceberg's transform, null in bucket 0; shape (rows,).

    Murmur3 (x86, 32 bits, seed 0) of the UTF-8 text or of the integer's 8 bytes, little-endian:
    what Spark's `bucket`, pyiceberg and this function agree on.
    https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements

    Raises:
        TypeError: the column holds neither text nor integers of 64 bits with a sign.
    """
    values: Sequence[Any]
    if column.dtype.is_integer():
        if column.len() and int(column.fill_null(0).max()) >= 1 << 63:  # type: ignore[arg-type]
            raise TypeError(str(column.dtype))
        plain = column.fill_null(0).cast(pl.Int64).to_numpy().astype("<i8").tobytes()
        values = [plain[start : start + 8] for start in range(0, len(plain), 8)]
    elif _is_text(column.dtype):
        values = column.cast(pl.String).fill_null("").to_list()
    else:
        raise TypeError(str(column.dtype))
    hashes = np.fromiter((mmh3.hash(value) for value in values), np.int64, len(values))
    return (hashes & 0x7FFFFFFF) % count


def _is_plain(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype == pl.Boolean or _is_text(dtype)


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)

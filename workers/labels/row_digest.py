"""A digest of a day's rows that no file decides: writing the same rows anew does not change it.

`ContentDigest` is of bytes, so that a compaction changes it. Here each row is an entry: its values
are expanded by SHAKE-128 to 128 numbers of 16 bits, and these are added (LtHash, see
`workers.labels.content_digest`). Fewer numbers than there, because every row of a day is expanded.
The count of rows is a part of the digest, too. So rows that add up alike have to be found with no
row more or less, and none of the old ones can be taken out twice. Short sums of digests, or such
ones without a count, could be forged by somebody who knows the record (Wagner 2002, "A Generalized
Birthday Problem").
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

_LANES = 128
_BYTES = 2 * _LANES
_ROWS = 1 << 16  # expanded at once: 16 MiB

_WHOLE = 1 << 53  # larger whole numbers are spelled out, too

Lanes = NDArray[np.uint16]


class StoredDigest(NamedTuple):
    """A digest as a record keeps it, with the columns of which it is."""

    columns: tuple[str, ...]
    rows: int
    sha256: str

    @classmethod
    def read(cls, text: str) -> "StoredDigest | None":
        """Return what a record says; None where it says something else."""
        try:
            found = json.loads(text)
            columns, rows, sha256 = (found[name] for name in cls._fields)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            return None
        return cls(tuple(columns), rows, sha256)

    def text(self) -> str:
        """Return it as JSON, for a record."""
        return json.dumps(self._asdict())


@dataclass(frozen=True, slots=True, eq=False)
class RowDigest:
    """The digest of a collection of rows, in whatever order; `RowDigest()` is that of none."""

    rows: int = 0
    lanes: Lanes = field(default_factory=lambda: np.zeros(_LANES, dtype=np.uint16))

    @classmethod
    def of(cls, table: pa.Table, columns: Sequence[str]) -> "RowDigest":
        """Return the digest of a table's rows, of these columns in this order.

        Raises:
            pyarrow.ArrowInvalid: there is text that is no UTF-8.
        """
        found = cls()
        for start in range(0, table.num_rows, _ROWS):
            entries = _entries(table.slice(start, _ROWS), columns)
            expanded = b"".join([hashlib.shake_128(entry).digest(_BYTES) for entry in entries])
            numbers = np.frombuffer(expanded, dtype="<u2").reshape(-1, _LANES)
            found += cls(len(numbers), numbers.sum(axis=0, dtype=np.uint16))
        return found

    def __add__(self, other: "RowDigest") -> "RowDigest":
        """Return the digest of both collections."""
        return RowDigest(self.rows + other.rows, self.lanes + other.lanes)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the digest of the same rows."""
        return isinstance(other, RowDigest) and (
            self.rows == other.rows and np.array_equal(self.lanes, other.lanes)
        )

    __hash__ = None  # type: ignore[assignment]

    def stored(self, columns: Sequence[str]) -> StoredDigest:
        """Return it as a record keeps it."""
        content = self.rows.to_bytes(8, "little") + self.lanes.astype("<u2").tobytes()
        return StoredDigest(tuple(columns), self.rows, hashlib.sha256(content).hexdigest())


def _entries(table: pa.Table, columns: Sequence[str]) -> list[bytes]:
    """Return each row as bytes: nulls, numbers in a fixed width, then words with their lengths.

    What writers change without meaning it is alike: widths and units, text's encoding, a missing
    number and NaN, 1 and 1.0, true and 1.
    """
    chosen = table.select(list(columns))
    chosen.validate(full=True)  # polars panics at text that is no UTF-8
    frame = pl.DataFrame(pl.from_arrow(chosen))
    nulls = np.zeros((frame.height, len(columns)), dtype=np.uint8)
    numbers = np.zeros((frame.height, len(columns)), dtype="<f8")
    words: list[pl.Series] = []
    for place, column in enumerate(map(_plain, frame.get_columns())):
        nulls[:, place] = column.is_null().to_numpy()
        if column.dtype == pl.String:
            words.append(
                pl.select(pl.concat_str(column.str.len_bytes(), pl.lit(":"), column))[:, 0]
            )
            continue
        value = column.cast(pl.Float64) + 0.0  # of -0.0 it makes 0.0
        numbers[:, place] = value.fill_null(0.0).to_numpy()
        if column.dtype.is_integer() and (large := column.cast(pl.Int128).abs() > _WHOLE).any():
            digits = pl.concat_str(pl.lit(f"{place}#"), column.cast(pl.String), pl.lit(";"))
            words.append(pl.select(pl.when(large).then(digits))[:, 0])
    fixed = np.concatenate([nulls, numbers.view(np.uint8)], axis=1)
    if not words:
        return [row.tobytes() for row in fixed]
    spelled = pl.select(pl.concat_str([word.fill_null("") for word in words]))[:, 0]
    return [
        row.tobytes() + text.encode() for row, text in zip(fixed, spelled.to_list(), strict=True)
    ]


def _plain(column: pl.Series) -> pl.Series:
    """Return a column as numbers or text; nulls for what no audit reads."""
    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        column = column.cast(pl.Datetime("us", kind.time_zone))
    if kind.is_temporal() or kind == pl.Boolean:
        return column.to_physical().cast(pl.Int64)
    if kind.is_float():
        return column.cast(pl.Float64).fill_nan(None)
    if kind.is_integer():
        return column
    if kind.is_nested() or kind == pl.Null:
        return pl.Series(column.name, [None] * len(column), dtype=pl.String)
    return column.bin.encode("hex") if kind == pl.Binary else column.cast(pl.String)
